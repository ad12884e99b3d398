"""The supervisor of a run as a process, what it answers, and its clients of the agents that run
tasks on other hosts."""

import psclust.agent  # noqa: F401 - makes `import grpc` cheaper
