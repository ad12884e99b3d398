"""A cluster as pods of Kubernetes: its manifest, which is pure text, and what `psclust task` does in each pod."""
