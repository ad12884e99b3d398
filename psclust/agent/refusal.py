"""How a PsclustError travels through gRPC: as a status whose details hold its message and exit
code."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import grpc

from psclust.errors import PsclustError

# Characters. gRPC ends a stream whose metadata has more than 16 KiB, and JSON may take six bytes
# for a character.
_LONGEST = 2500


class Refusal(PsclustError):
    """A PsclustError that a service raised, with its message and exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def refuse(context: grpc.ServicerContext, error: PsclustError) -> NoReturn:
    """End the RPC with `error`."""
    context.abort(
        grpc.StatusCode.FAILED_PRECONDITION,
        json.dumps({"message": str(error)[:_LONGEST], "exit_code": error.exit_code}),
    )
    raise AssertionError


def refusal(error: Any) -> Refusal | None:
    """The error that a service refused an RPC with; None for any other gRPC error."""
    if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
        return None
    details = json.loads(error.details())
    return Refusal(details["message"], details["exit_code"])
