"""Means of gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication.gradients import weighted_mean

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield session


def _variable(name: str, shape: list[int]) -> Any:
    return tf.compat.v1.get_variable(name, shape)


def _slices(rows: dict[int, float]) -> tf.IndexedSlices:
    return tf.IndexedSlices(
        tf.constant([[value] for value in rows.values()]),
        tf.constant(list(rows), tf.int64),
        tf.constant([3, 1]),
    )


def _examples(*counts: int) -> Any:
    return tf.constant(sum(counts), tf.int64)


def test_dense_gradients_are_weighted_by_examples(session: Any) -> None:
    v = _variable("v", [2])
    # Gradients 1 of six examples and 4 of two come in multiplied by their number of examples.
    ((mean, variable),) = weighted_mean(
        [[(tf.constant([6.0, 6.0]), v)], [(tf.constant([8.0, 8.0]), v)]], _examples(6, 2)
    )
    assert variable is v
    assert session.run(mean).tolist() == [1.75, 1.75]


def test_sparse_gradients_stay_sparse(session: Any) -> None:
    v = _variable("v", [3, 1])
    ((mean, _),) = weighted_mean(
        [[(_slices({0: 2.0, 1: 4.0}), v)], [(_slices({1: 8.0}), v)]], _examples(2, 2)
    )
    assert isinstance(mean, tf.IndexedSlices)
    assert session.run(tf.convert_to_tensor(mean)).tolist() == [[0.5], [3.0], [0.0]]


def test_a_dense_and_a_sparse_gradient_of_one_variable_add_up(session: Any) -> None:
    v = _variable("v", [3, 1])
    ((mean, _),) = weighted_mean(
        [[(_slices({0: 2.0}), v)], [(tf.ones([3, 1]), v)]], _examples(1, 1)
    )
    assert session.run(mean).tolist() == [[1.5], [0.5], [0.5]]


def test_a_variable_that_one_tower_does_not_use_counts_as_zero_there(session: Any) -> None:
    v, w = _variable("v", [1]), _variable("w", [1])
    towers = [[(tf.constant([2.0]), v), (tf.constant([2.0]), w)], [(tf.constant([2.0]), v)]]
    means = {
        variable.op.name: session.run(mean).tolist()
        for mean, variable in weighted_mean(towers, _examples(1, 1))
    }
    assert means == {"v": [2.0], "w": [1.0]}


def test_a_tower_without_examples_has_no_say(session: Any) -> None:
    v = _variable("v", [1])
    ((mean, _),) = weighted_mean(
        [[(tf.constant([6.0]), v)], [(tf.constant([0.0]), v)]], _examples(3, 0)
    )
    assert session.run(mean).tolist() == [2.0]


def test_the_mean_has_the_type_of_the_variable(session: Any) -> None:
    v = tf.compat.v1.get_variable("v", [1], tf.float16)
    ((mean, _),) = weighted_mean(
        [[(tf.constant([1.0], tf.float16), v)], [(tf.constant([2.0], tf.float16), v)]],
        _examples(1, 1),
    )
    assert session.run(mean).dtype == np.float16
