"""The calls of an agent over gRPC, read from the descriptor of its service: `agent.proto` is the
only place that lists them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc

from psclust.agent import agent_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["Agent"]


def agent_stub(channel: grpc.Channel) -> Any:
    """An object with a method for each call."""
    calls = {}
    for method in _SERVICE.methods:
        make = channel.unary_stream if method.server_streaming else channel.unary_unary
        calls[method.name] = make(
            f"/{_SERVICE.full_name}/{method.name}",
            getattr(pb, method.input_type.name).SerializeToString,
            getattr(pb, method.output_type.name).FromString,
        )
    return SimpleNamespace(**calls)


def serve_agent(service: object, server: grpc.Server) -> None:
    """Have a server that has not started answer with the methods of `service`; a call that it lacks
    is refused as UNIMPLEMENTED."""
    handlers = {}
    for method in _SERVICE.methods:
        answer = getattr(service, method.name, None)
        handler = (
            grpc.unary_stream_rpc_method_handler
            if method.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        if answer is not None:
            handlers[method.name] = handler(
                answer,
                getattr(pb, method.input_type.name).FromString,
                getattr(pb, method.output_type.name).SerializeToString,
            )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),)
    )
