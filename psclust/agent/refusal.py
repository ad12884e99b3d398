"""A refusal on its way through gRPC: a status whose text holds the sentence and the exit code."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import grpc

from psclust.errors import PsclustError


class Refusal(PsclustError):
    """The other side's own words and exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def refuse(context: grpc.ServicerContext, error: PsclustError) -> NoReturn:
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, json.dumps({"message": str(error), "exit_code": error.exit_code}))
    raise AssertionError


def refusal(error: Any) -> Refusal | None:
    """What a service has refused; None for any other error."""
    if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
        return None
    details = json.loads(error.details())
    return Refusal(details["message"], details["exit_code"])
