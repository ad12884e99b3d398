"""An update that is made when the messages come that were foreseen: its order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication.sync.barrier_messages import (
    Kind,
    Message,
    Token,
    Update,
    decode_messages,
    encode_tokens,
    encode_update,
    tokens_shape,
    update_shape,
)
from psclust.replication.sync.foreseen_update import decode_update
from psclust.replication.sync.readiness import of_each

pytestmark = pytest.mark.tensorflow


def _value(build: Any) -> Any:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(build())


def test_an_order_comes_back_in_its_parts() -> None:
    tokens = {0: Token(Kind.GO, 10, 101, 8)}
    foreseen = Message(Kind.GRADIENT, 1, 11, 100, 1)
    vector = encode_update(Update(8, 40, {1: 2}, tokens, wanted=3), 2, [foreseen])
    assert list(vector.shape) == update_shape(2)
    update = _value(lambda: vars(decode_update(tf.constant(vector), 2)))
    assert (
        update["messages"],
        update["examples"],
        update["wanted"],
        update["batches"].tolist(),
    ) == (1, 40, 3, [0, 2])
    assert update["tokens"].reshape(tokens_shape(2)).tolist() == encode_tokens(tokens, 2).tolist()
    assert decode_messages(update["foreseen"])[1] == foreseen
    assert not np.any(update["foreseen"][:5])


def test_an_order_sends_no_token_to_the_worker_that_has_it_already() -> None:
    tokens = {worker: Token(Kind.GO, 10 + worker, 101, 8) for worker in (0, 1)}
    update = Update(8, 40, {}, tokens, wanted=0)
    others = replace(update, tokens={1: tokens[1]})
    assert (
        encode_update(update, 2, without=0).tolist()
        == encode_update(others, 2).tolist()
        != encode_update(update, 2).tolist()
    )


@pytest.mark.parametrize("chosen", [[1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0]])
def test_each_worker_that_is_chosen_gets_its_row(chosen: list[int]) -> None:
    rows = [[1, 2], [3, 4], [5, 6]]
    found = _value(lambda: of_each(tf.constant(rows), tf.constant(chosen), 3))
    assert [each.tolist() for each in found] == [
        [row] if one else [] for row, one in zip(rows, chosen, strict=True)
    ]
