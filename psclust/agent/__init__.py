"""The agent: a process on each host that runs tasks for a supervisor on another machine and decides
nothing.

`make proto` generates `agent_pb2.py` and `agent_pb2_grpc.py` from `agent.proto`, with grpcio-tools
1.74: newer ones need a newer protobuf than TensorFlow allows.
"""

from psclust.agent.deferred import defer

# Unused here, and half the time of `import grpc`.
defer("asyncio")
defer("grpc.aio")
