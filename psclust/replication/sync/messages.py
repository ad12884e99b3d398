"""The messages between the chief and the workers of a barrier, and their encoding: each record is
an int64 vector of its fields.

A worker sends a `Message` to the chief's queue and takes a `Token` from its own queue. The chief
feeds an `Update` to the run that makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

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


class Message(NamedTuple):
    """Worker to chief. incarnation: a random number for the life of one worker process; examples:
    of the gradient; part: where parts of the data are handed out, the one that they are from."""

    kind: Kind
    worker: int
    incarnation: int
    round: int
    examples: int
    part: int = 0


class Token(NamedTuple):
    """Chief to one incarnation of a worker. step: the global step reached."""

    kind: Kind
    incarnation: int
    round: int
    step: int

    @property
    def go(self) -> bool:
        """Whether to compute another gradient."""
        return self.kind in (Kind.GO, Kind.LATE)


@dataclass(frozen=True, slots=True)
class Update:
    """The update that ends `round` and leads to global step `step`: apply the mean of the round's
    gradients, over `examples` examples; count `batches` (worker -> number) as used up, of `parts`
    (worker -> part, by default 0) if those are handed out; send `tokens` (worker -> token)."""

    round: int
    step: int
    examples: int
    batches: Mapping[int, int]
    tokens: Mapping[int, Token]
    parts: Mapping[int, int] = field(default_factory=dict)


_NO_TOKEN = -1
_TOKEN_WIDTH, _MESSAGE_WIDTH = len(Token._fields), len(Message._fields)
_WITHOUT_TOKEN = (_NO_TOKEN,) * _TOKEN_WIDTH
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


def of_each(rows: Tensor, chosen: Tensor, workers: int) -> list[Tensor]:
    """For each worker its row of `rows`, [1, ...], if `chosen`, int32 [workers], is 1 there, and no
    row, [0, ...], if it is 0."""
    whose = workers - chosen * (workers - tf.range(workers))
    return list(tf.dynamic_partition(rows, whose, workers + 1))[:workers]


def tokens_shape(workers: int) -> list[int]:
    return [workers, _TOKEN_WIDTH]


def encode_update(update: Update, workers: int) -> Any:
    """int64, see `decode_update`."""
    batches = [update.batches.get(worker, 0) for worker in range(workers)]
    parts = [update.parts.get(worker, 0) for worker in range(workers)]
    tokens = encode_tokens(update.tokens, workers)
    return np.concatenate([[update.round, update.examples, *batches, *parts], tokens.ravel()])


def update_shape(workers: int) -> list[int]:
    return [2 + workers * (2 + _TOKEN_WIDTH)]


def decode_update(vector: Tensor, workers: int) -> tuple[Tensor, ...]:
    """Its fields in a graph, int64 all: (round, examples: scalars; batches, parts: [workers];
    tokens: [workers, 4])."""
    widths = [2, workers, workers, workers * _TOKEN_WIDTH]
    numbers, batches, parts, tokens = tf.split(vector, widths)
    round_, examples = tf.unstack(numbers)
    return round_, examples, batches, parts, tf.reshape(tokens, tokens_shape(workers))
