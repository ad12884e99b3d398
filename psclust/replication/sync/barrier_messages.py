"""What travels between the chief and the workers of a barrier, and its encoding: each record is an
int64 vector of its fields, in order.

A worker sends a `Message` to the chief's queue and takes a `Token` from its own queue. `Update` is
fed to the chief's update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

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


class Message(NamedTuple):
    """Worker to chief. incarnation: a random number for the life of one worker process; examples:
    of the gradient."""

    kind: Kind
    worker: int
    incarnation: int
    round: int
    examples: int


class Token(NamedTuple):
    """Chief to one incarnation of a worker. step: the global step reached."""

    kind: Kind
    incarnation: int
    round: int
    step: int


@dataclass(frozen=True, slots=True)
class Update:
    """The update that leads to global step `step`: apply the mean of the round's gradients, over
    `examples` examples; count `batches` (worker -> number) as used up; send `tokens` (worker ->
    token); then wait for `wanted` messages."""

    step: int
    examples: int
    batches: Mapping[int, int]
    tokens: Mapping[int, Token]
    wanted: int


_NO_TOKEN = -1
_TOKEN_WIDTH, _MESSAGE_WIDTH = len(Token._fields), len(Message._fields)
_WITHOUT_TOKEN, _WITHOUT_MESSAGE = (_NO_TOKEN,) * _TOKEN_WIDTH, (0,) * _MESSAGE_WIDTH
MESSAGE_SHAPE, TOKEN_SHAPE = [_MESSAGE_WIDTH], [_TOKEN_WIDTH]


def position(record: type[Message | Token], name: str) -> int:
    """The index of field `name` in an encoded record."""
    return record._fields.index(name)


def decode_token(vector: Any) -> Token:
    return Token(Kind(int(vector[0])), *(int(value) for value in vector[1:]))


def decode_messages(rows: Any) -> list[Message]:
    """Messages from an int64 array, one after another."""
    return [
        Message(Kind(row[0]), *row[1:]) for row in np.reshape(rows, [-1, _MESSAGE_WIDTH]).tolist()
    ]


def encode_tokens(tokens: Mapping[int, Token], workers: int) -> Any:
    """int64 [workers, 4]; a worker without a token has kind -1, see `has_token`."""
    return np.array([tokens.get(worker, _WITHOUT_TOKEN) for worker in range(workers)], np.int64)


def has_token(rows: Tensor) -> Tensor:
    """bool [workers], of `encode_tokens`."""
    return rows[:, 0] > _NO_TOKEN


def tokens_shape(workers: int) -> list[int]:
    return [workers, _TOKEN_WIDTH]


def encode_update(
    update: Update, workers: int, foreseen: Sequence[Message] = (), without: int | None = None
) -> Any:
    """int64, see `DecodedUpdate`. foreseen: the messages on whose arrival the update is made, one a
    worker; their `examples` count, not those of `update`, nor its `batches`; without any, it is
    made at once. without: a worker that is sent no token."""
    numbers = [
        len(foreseen),
        update.examples,
        update.wanted,
        *(update.batches.get(worker, 0) for worker in range(workers)),
    ]
    for worker in range(workers):
        numbers += (
            _WITHOUT_TOKEN if worker == without else update.tokens.get(worker, _WITHOUT_TOKEN)
        )
    messages = {message.worker: message for message in foreseen}
    for worker in range(workers):
        numbers += messages.get(worker, _WITHOUT_MESSAGE)
    return np.array(numbers, np.int64)


def update_shape(workers: int) -> list[int]:
    return [3 + workers * (1 + _TOKEN_WIDTH + _MESSAGE_WIDTH)]
