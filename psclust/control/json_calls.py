"""The calls of a run's supervisor: gRPC, with a JSON text as request and as reply, since plans and
statuses are JSON on disk, too. Both ends are of one psclust."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import grpc

_SERVICE = "psclust.Supervisor"
Call = Callable[[bytes, grpc.ServicerContext], str]
Stream = Callable[[bytes, grpc.ServicerContext], Iterator[str]]


def answer_calls(
    server: grpc.Server, calls: Mapping[str, Call], streams: Mapping[str, Stream]
) -> None:
    """Have a server that has not started answer these calls, by name. They get the bytes of a
    request, which may be of anything."""
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(call, None, str.encode)
        for name, call in calls.items()
    } | {
        name: grpc.unary_stream_rpc_method_handler(stream, None, str.encode)
        for name, stream in streams.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))


def call(channel: grpc.Channel, name: str, request: str, timeout_s: float) -> str:
    """Raises grpc.RpcError."""
    return str(
        channel.unary_unary(f"/{_SERVICE}/{name}", str.encode, bytes.decode)(
            request, timeout=timeout_s
        )
    )


def stream(channel: grpc.Channel, name: str, request: str) -> Iterator[str]:
    """Raises grpc.RpcError."""
    yield from channel.unary_stream(f"/{_SERVICE}/{name}", str.encode, bytes.decode)(request)
