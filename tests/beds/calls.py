"""Calls of psclust's gRPC services with bytes of any kind."""

from __future__ import annotations

import grpc

from psclust.agent.refusal import refusal
from psclust.testing.wait import PATIENCE_S


def answer(channel: grpc.Channel, method: str, data: bytes) -> bytes | None:
    """method: such as /psclust.Supervisor/Apply. None: refused, in a sentence."""
    try:
        return bytes(channel.unary_unary(method)(data, timeout=PATIENCE_S))
    except grpc.RpcError as error:
        refused = refusal(error)
        if refused is None or not str(refused).strip() or "Traceback" in str(refused):
            raise
        return None
