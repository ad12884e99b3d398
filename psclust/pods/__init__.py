"""A cluster as pods of Kubernetes: its manifest and the pods of `up --kubernetes`, which are pure,
and what runs in them."""
