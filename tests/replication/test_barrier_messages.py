"""The encoding of the barrier's messages."""

from __future__ import annotations

import numpy as np

from psclust.replication.sync.barrier_messages import (
    Kind,
    Message,
    Token,
    decode_messages,
    decode_token,
    encode_tokens,
    has_token,
    position,
    tokens_shape,
)


def test_messages_come_back_from_their_vectors() -> None:
    sent = [Message(Kind.JOIN, 1, 2**62, 0, 0), Message(Kind.GRADIENT, 0, 5, 100, 32)]
    flat = [int(value) for message in sent for value in message]
    assert decode_messages(np.array(flat, np.int64)) == sent
    assert decode_messages(np.zeros([0, 5], np.int64)) == []
    assert flat[5 + position(Message, "examples")] == 32


def test_tokens_come_back_from_the_rows_of_the_workers_that_get_one() -> None:
    token = Token(Kind.LATE, 2**62, 101, 7)
    rows = encode_tokens({1: token}, 3)
    assert list(rows.shape) == tokens_shape(3)
    assert has_token(rows).tolist() == [False, True, False]
    assert decode_token(rows[1]) == token
