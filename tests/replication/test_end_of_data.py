"""At the end of the data no variable changes, even if the change depends on no gradient or
batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import psclust
from psclust.replication.build_in_graph import build_in_graph
from psclust.replication.device_layout import DeviceLayout

pytestmark = pytest.mark.tensorflow


def _model(features: Any) -> psclust.EstimatorSpec:
    """A table, of which Adam lets all moments decay in every step, and a weight whose gradient is
    the same whatever the batch."""
    table = tf.compat.v1.get_variable("table", [5, 1], initializer=tf.compat.v1.ones_initializer())
    weight = tf.compat.v1.get_variable("weight", [2], initializer=tf.compat.v1.ones_initializer())
    return psclust.EstimatorSpec(
        "train", loss=tf.reduce_sum(tf.nn.embedding_lookup(table, features)) + tf.reduce_sum(weight)
    )


def _data() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(tf.constant([1, 3]))


@pytest.mark.parametrize("towers", [1, 2])
def test_the_step_that_finds_no_batch_changes_nothing(towers: int) -> None:
    program = psclust.Program(_model, _data, lambda: tf.compat.v1.train.AdamOptimizer(0.1))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        built = build_in_graph(program, DeviceLayout(0, ("",) * towers, ""), sync=True)
        everything = tf.compat.v1.global_variables()
        session.run(tf.compat.v1.global_variables_initializer())
        session.run([tower.input.initializer for tower in built.towers])
        initial = session.run(everything)
        session.run(built.steps[0].fetches)
        before = session.run(everything)
        assert not all(
            np.array_equal(one, other) for one, other in zip(initial, before, strict=True)
        )
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(built.steps[0].fetches)
        for variable, one, other in zip(everything, before, session.run(everything), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=variable.op.name)
