"""The supervisor of a run as a process, its gRPC service, and its clients of the agents that run
tasks on other hosts.

`make proto` generates `supervisor_pb2.py` and `supervisor_pb2_grpc.py` from `supervisor.proto`.
"""

import psclust.agent  # noqa: F401 - makes `import grpc` cheaper
