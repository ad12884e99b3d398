"""The supervisor of a run as a process, its service, and the agents through which it runs tasks on other hosts.

`supervisor_pb2.py` and `supervisor_pb2_grpc.py` are generated from `supervisor.proto` by `make proto`.
"""

import psclust.agent  # noqa: F401 - makes `import grpc` cheaper
