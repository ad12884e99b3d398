"""The calls of an agent over gRPC, read from the descriptor of its service: `agent.proto` is the
only place that lists them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from psclust.agent import agent_pb2 as pb
from psclust.agent.refusal import refuse
from psclust.errors import PsclustError, UsageError

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
                _answering(answer, getattr(pb, method.input_type.name)),
                None,
                getattr(pb, method.output_type.name).SerializeToString,
            )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),)
    )


def _answering(answer: Callable[[Any, grpc.ServicerContext], Any], message: Any) -> Any:
    """`answer`, for the bytes of a request. A PsclustError that it raises ends the call. Bytes that
    are no `message` are refused: gRPC would log a traceback, and answer with an internal error."""

    def call(data: bytes, context: grpc.ServicerContext) -> Any:
        try:
            request = message.FromString(data)
        except DecodeError as error:
            refuse(context, UsageError(f"not a {message.DESCRIPTOR.name}: {error}."))
        try:
            return answer(request, context)
        except PsclustError as error:
            refuse(context, error)

    return call
