"""What travels between the chief and the workers of a barrier, and its encoding: each record is an int64 vector of its fields, in order.

A worker sends a `Message` to the chief's queue and takes a `Token` from its own queue. `Update` is fed to the chief's update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np

from psclust.replication.tf_types import Tensor


class Kind(IntEnum):
    """The meaning of a message or a token."""

    JOIN = 0  # worker: I am here and hold no token
    GRADIENT = 1  # worker: my gradient of this round is complete
    LEAVE = 2  # worker: I have ended my training
    GO = 3  # chief: compute a gradient for this round
    STOP = 4  # chief: the training is over, leave; or: you have left
    RESYNC = 5  # chief: a new barrier is here; join it, unless you hold a token at least this new
    LATE = 6  # chief: your gradient came too late and was dropped; compute one for this round
    STRAY = 7  # ps to chief: a gradient of another round was waiting, and was taken


@dataclass(frozen=True, slots=True)
class Message:
    """Worker to chief. incarnation: a random number for the life of one worker process; examples: of the gradient."""

    kind: Kind
    worker: int
    incarnation: int
    round: int
    examples: int


@dataclass(frozen=True, slots=True)
class Token:
    """Chief to one incarnation of a worker. step: the global step reached."""

    kind: Kind
    incarnation: int
    round: int
    step: int


@dataclass(frozen=True, slots=True)
class Update:
    """The update that leads to global step `step`: apply the mean of the round's gradients, over `examples` examples; count `batches`
    (worker -> number) as used up; send `tokens` (worker -> token); then wait for `wanted` messages."""

    step: int
    examples: int
    batches: Mapping[int, int]
    tokens: Mapping[int, Token]
    wanted: int


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The messages that a round still needs if all goes well, but for their `examples`, and the update that follows, but for its `examples`
    and `batches`."""

    messages: Sequence[Message]
    update: Update

    def was(self, update: Update) -> bool:
        return replace(update, examples=self.update.examples, batches=self.update.batches) == self.update


_NO_TOKEN = -1
_TOKEN_WIDTH, _MESSAGE_WIDTH = len(fields(Token)), len(fields(Message))
MESSAGE_SHAPE, TOKEN_SHAPE = [_MESSAGE_WIDTH], [_TOKEN_WIDTH]


def position(record: type, name: str) -> int:
    """The index of field `name` in an encoded record."""
    return [field.name for field in fields(record)].index(name)


def decode_token(vector: Any) -> Token:
    return Token(Kind(int(vector[0])), *(int(value) for value in vector[1:]))


def decode_messages(rows: Any) -> list[Message]:
    """Messages from an int64 array, one after another."""
    return [Message(Kind(row[0]), *row[1:]) for row in np.reshape(rows, [-1, _MESSAGE_WIDTH]).tolist()]


def encode_tokens(tokens: Mapping[int, Token], workers: int) -> Any:
    """int64 [workers, 4]; a worker without a token has kind -1, see `has_token`."""
    rows = np.full([workers, _TOKEN_WIDTH], _NO_TOKEN, np.int64)
    for worker, token in tokens.items():
        rows[worker] = (token.kind, token.incarnation, token.round, token.step)
    return rows


def has_token(rows: Tensor) -> Tensor:
    """bool [workers], of `encode_tokens`."""
    return rows[:, 0] > _NO_TOKEN


def tokens_shape(workers: int) -> list[int]:
    return [workers, _TOKEN_WIDTH]


def encode_update(update: Update, workers: int, foreseen: Sequence[Message] = ()) -> Any:
    """int64, see `DecodedUpdate`. foreseen: the messages on whose arrival the update is made, one a worker; their `examples` count, not
    those of `update`, nor its `batches`. None: it is made at once."""
    batches = [update.batches.get(worker, 0) for worker in range(workers)]
    rows = np.zeros([workers, _MESSAGE_WIDTH], np.int64)
    for message in foreseen:
        rows[message.worker] = astuple(message)
    numbers = [len(foreseen), update.examples, update.wanted]
    return np.concatenate([numbers, batches, np.ravel(encode_tokens(update.tokens, workers)), np.ravel(rows)])


def update_shape(workers: int) -> list[int]:
    return [3 + workers * (1 + _TOKEN_WIDTH + _MESSAGE_WIDTH)]
