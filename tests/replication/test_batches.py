"""How many examples a batch has, as a tensor and as far as its shape says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from psclust.replication.input.batches import count_examples, known_examples

pytestmark = pytest.mark.tensorflow

PLACEHOLDER = tf.compat.v1.placeholder


@pytest.mark.parametrize(
    ("batch", "examples", "known"),
    [
        (lambda: (tf.zeros([3, 2]), tf.zeros([3])), 3, 3),
        (lambda: ({"b": tf.zeros([3, 2]), "a": tf.zeros([3])}, None), 3, 3),
        (lambda: (tf.zeros([3, 2])[: PLACEHOLDER(tf.int32, [])], tf.zeros([3])), 2, None),
        (lambda: (tf.constant(1.0), None), 1, None),
        (lambda: (tf.sparse.from_dense(tf.eye(4)), None), 4, 4),
        (lambda: (tf.ragged.constant([[1], [2, 3]]), None), 2, 2),
    ],
    ids=["tensors", "a dictionary", "of any length", "a scalar", "sparse", "ragged"],
)
def test_the_leading_dimension_counts(
    batch: Callable[[], Any], examples: int, known: int | None
) -> None:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        made = batch()
        lengths = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
        assert session.run(count_examples(made), dict.fromkeys(lengths, 2)) == examples
        assert known_examples(made) == known
