"""Messages and tokens, as histories of a barrier are written with them."""

from __future__ import annotations

from psclust.replication.sync.actions import Warn
from psclust.replication.sync.messages import Kind, Message, Token

DIED = Warn("a worker died in the middle of step 8; the step is computed again")


def join(worker: int, incarnation: int) -> Message:
    return Message(Kind.JOIN, worker, incarnation, 0, 0)


def gradient(worker: int, incarnation: int, round_: int, examples: int = 8) -> Message:
    return Message(Kind.GRADIENT, worker, incarnation, round_, examples)


def leave(worker: int, incarnation: int) -> Message:
    return Message(Kind.LEAVE, worker, incarnation, 0, 0)


def go(incarnation: int, round_: int, step: int = 7) -> Token:
    return Token(Kind.GO, incarnation, round_, step)


def stop(incarnation: int, round_: int, step: int = 7) -> Token:
    return Token(Kind.STOP, incarnation, round_, step)
