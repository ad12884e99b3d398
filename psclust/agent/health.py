"""The standard health service (github.com/grpc/grpc, doc/health-checking.md) of an agent, imported when somebody asks for it: `psclust`
never does, and it brings asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import grpc

_SERVICE = "grpc.health.v1.Health"


class HealthHandler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Says of `service`, and of the server as a whole, that it serves."""

    def __init__(self, service: str) -> None:
        self._serving = service

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if not handler_call_details.method.startswith(f"/{_SERVICE}/"):
            return None
        return self._handler.service(handler_call_details)

    @cached_property
    def _handler(self) -> grpc.GenericRpcHandler:
        from grpc_health.v1 import health, health_pb2, health_pb2_grpc

        servicer = health.HealthServicer()
        servicer.set(self._serving, health_pb2.HealthCheckResponse.SERVING)
        registered = _Registered()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, registered)
        return registered.handlers[0]


class _Registered:
    """What generated code takes for a server that has not been started yet."""

    def __init__(self) -> None:
        self.handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self.handlers.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """The same ones, by name."""
