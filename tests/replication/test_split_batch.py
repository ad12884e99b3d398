"""The rows of a split batch that each tower gets."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import psclust
from psclust.errors import UsageError
from psclust.replication.input.replica_input import build_input
from psclust.replication.input.split_batch import split_input

pytestmark = pytest.mark.tensorflow


def _parts(session: Any, dataset: tf.data.Dataset, towers: int, **more: Any) -> list[Any]:
    program = psclust.Program(
        lambda features: None, lambda: dataset, config=psclust.TrainConfig(**more)
    )
    parts = split_input(build_input(program, psclust.Shard(), pad=False, divisor=towers), towers)
    session.run(parts[0].initializer)
    return parts


def _next(session: Any, parts: list[Any]) -> list[tuple[list[int], int]]:
    """(rows, how many of them count) of every tower."""
    return [
        (rows.tolist(), int(count))
        for rows, count in session.run([(part.features, part.examples) for part in parts])
    ]


def test_towers_get_equal_parts_and_the_first_ones_what_is_over(session: Any) -> None:
    parts = _parts(session, tf.data.Dataset.range(12).batch(7), 3)
    assert _next(session, parts) == [([0, 1, 2], 3), ([3, 4], 2), ([5, 6], 2)]
    assert _next(session, parts) == [([7, 8], 2), ([9, 10], 2), ([11], 1)]
    with pytest.raises(tf.errors.OutOfRangeError):
        _next(session, parts)


def test_a_tower_without_a_row_gets_a_copy_that_counts_nothing(session: Any) -> None:
    assert _next(session, _parts(session, tf.data.Dataset.range(2).batch(2), 4)) == [
        ([0], 1),
        ([1], 0),
        ([1], 1),
        ([1], 0),
    ]
    assert _next(session, _parts(session, tf.data.Dataset.range(1).batch(1), 2)) == [
        ([0], 1),
        ([0], 0),
    ]


def test_batches_that_cannot_be_shared_evenly_may_be_left_out(session: Any) -> None:
    parts = _parts(session, tf.data.Dataset.range(10).batch(4), 4, drop_uneven=True)
    assert _next(session, parts) == [([0], 1), ([1], 1), ([2], 1), ([3], 1)]
    assert _next(session, parts) == [([4], 1), ([5], 1), ([6], 1), ([7], 1)]
    with pytest.raises(tf.errors.OutOfRangeError):
        _next(session, parts)


def test_sparse_and_ragged_tensors_and_labels_are_split_with_the_rest(session: Any) -> None:
    x = tf.range(5)
    features = {
        "sparse": tf.sparse.from_dense(tf.one_hot(x, 5)),
        "ragged": tf.RaggedTensor.from_row_lengths(tf.range(15), x + 1),
    }
    parts = _parts(session, tf.data.Dataset.from_tensors((features, x)), 2)
    assert parts[1].features["sparse"].shape.as_list() == [None, 5]
    found, labels = session.run([parts[1].features, parts[1].labels])
    assert (found["sparse"].indices.tolist(), found["sparse"].dense_shape.tolist()) == (
        [[0, 3], [1, 4]],
        [2, 5],
    )
    assert found["ragged"].to_list() == [[6, 7, 8, 9], [10, 11, 12, 13, 14]]
    assert labels.tolist() == [3, 4]


def test_a_scalar_in_a_batch_is_refused(session: Any) -> None:
    with pytest.raises(UsageError, match="input_fn yields a scalar"):
        _parts(session, tf.data.Dataset.from_tensors((tf.range(4), 1.0)), 2)


def test_tensors_of_different_lengths_are_refused_with_a_sentence(session: Any) -> None:
    parts = _parts(session, tf.data.Dataset.from_tensors((tf.range(4), tf.range(3))), 2)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="tensors with different numbers of rows"
    ):
        session.run(parts[0].labels)
