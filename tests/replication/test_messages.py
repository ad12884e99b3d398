"""The encoding of the barrier's messages."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from psclust.replication.sync.messages import (
    Kind,
    Message,
    Token,
    Update,
    decode_messages,
    decode_token,
    decode_update,
    encode_tokens,
    encode_update,
    has_token,
    position,
    tokens_shape,
    update_shape,
)


def test_messages_come_back_from_their_vectors() -> None:
    sent = [Message(Kind.JOIN, 1, 2**62, 0, 0), Message(Kind.GRADIENT, 0, 5, 100, 32, 9)]
    flat = [int(value) for message in sent for value in message]
    assert decode_messages(np.array(flat, np.int64)) == sent
    assert decode_messages(np.zeros([0, 6], np.int64)) == []
    assert flat[6 + position(Message, "examples")] == 32


def test_tokens_come_back_from_the_rows_of_the_workers_that_get_one() -> None:
    token = Token(Kind.LATE, 2**62, 101, 7)
    rows = encode_tokens({1: token}, 3)
    assert list(rows.shape) == tokens_shape(3)
    assert has_token(rows).tolist() == [False, True, False]
    assert decode_token(rows[1]) == token


def test_an_update_comes_apart_in_the_graph() -> None:
    tokens = {2: Token(Kind.GO, 5, 101, 8)}
    vector = encode_update(Update(100, 8, 40, {1: 2}, tokens, {1: 9}), 3)
    assert list(vector.shape) == update_shape(3)
    round_, examples, batches, parts, rows = decode_update(tf.constant(vector, tf.int64), 3)
    assert (int(round_), int(examples)) == (100, 40)
    assert batches.numpy().tolist() == [0, 2, 0]
    assert parts.numpy().tolist() == [0, 9, 0]
    assert rows.numpy().tolist() == encode_tokens(tokens, 3).tolist()
