"""What `psclust report` shows of one run."""
