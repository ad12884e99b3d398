"""The report of one run, `psclust report`."""
