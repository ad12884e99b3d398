"""A process on each host that runs tasks for a supervisor elsewhere and decides nothing.

`agent_pb2.py` and `agent_pb2_grpc.py` are generated from `agent.proto` by `make proto`, with an old grpcio-tools (1.74), so that the code
runs with every protobuf TensorFlow admits.
"""

from psclust.agent.deferred import defer

# Half the time of `import grpc`, for what nothing here uses.
defer("asyncio")
defer("grpc.aio")
