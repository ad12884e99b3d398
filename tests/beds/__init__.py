"""Where tests, benchmarks and pictures run psclust: the real command in a folder of its own, hosts
with sshd, a Slurm, a terminal, a browser. Of the checkout only; no wheel has it."""
