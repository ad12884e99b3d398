"""Means of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication.gradients import weighted_mean

pytestmark = pytest.mark.tensorflow


def _slices(rows: dict[int, float]) -> tf.IndexedSlices:
    return tf.IndexedSlices(
        tf.constant([[value] for value in rows.values()]),
        tf.constant(list(rows), tf.int64),
        tf.constant([3, 1]),
    )


def _examples(count: int) -> Any:
    return tf.constant(count, tf.int64)


@pytest.mark.parametrize(
    ("shape", "gradients", "examples", "expected"),
    [
        # Gradients 1 of six examples and 4 of two come in multiplied by their number of examples.
        ([2], lambda: [tf.constant([6.0, 6.0]), tf.constant([8.0, 8.0])], 8, [1.75, 1.75]),
        (
            [3, 1],
            lambda: [_slices({0: 2.0, 1: 4.0}), _slices({1: 8.0})],
            4,
            [[0.5], [3.0], [0.0]],
        ),
        ([3, 1], lambda: [_slices({0: 2.0}), tf.ones([3, 1])], 2, [[1.5], [0.5], [0.5]]),
        ([1], lambda: [tf.constant([6.0]), tf.constant([0.0])], 3, [2.0]),
    ],
    ids=["dense, by examples", "sparse", "dense and sparse", "a tower without examples"],
)
def test_the_mean_of_two_towers(
    session: Any, shape: list[int], gradients: Any, examples: int, expected: list[Any]
) -> None:
    v, made = tf.compat.v1.get_variable("v", shape), gradients()
    ((mean, variable),) = weighted_mean([[(each, v)] for each in made], _examples(examples))
    assert variable is v
    sparse = all(isinstance(each, tf.IndexedSlices) for each in made)
    assert isinstance(mean, tf.IndexedSlices) == sparse
    assert session.run(tf.convert_to_tensor(mean)).tolist() == expected


def test_a_variable_that_one_tower_does_not_use_counts_as_zero_there(session: Any) -> None:
    v, w = (tf.compat.v1.get_variable(name, [1]) for name in "vw")
    towers = [[(tf.constant([2.0]), v), (tf.constant([2.0]), w)], [(tf.constant([2.0]), v)]]
    means = {
        variable.op.name: session.run(mean).tolist()
        for mean, variable in weighted_mean(towers, _examples(2))
    }
    assert means == {"v": [2.0], "w": [1.0]}


def test_the_mean_has_the_type_of_the_variable(session: Any) -> None:
    v = tf.compat.v1.get_variable("v", [1], tf.float16)
    towers = [[(tf.constant([value], tf.float16), v)] for value in (1.0, 2.0)]
    ((mean, _),) = weighted_mean(towers, _examples(2))
    assert session.run(mean).dtype == np.float16
