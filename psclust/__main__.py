"""`python -m psclust` is the command `psclust`."""

from psclust.cli.main import main

main()
