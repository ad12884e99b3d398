"""Clusters from Python and notebooks: a handle on `psclust up`, which runs beside the program and
ends with it."""
