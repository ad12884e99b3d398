"""Gradient descent beside the old values: the updates of TensorFlow's optimizer, which writes over
them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication.gradients import scale, scaled_sum
from psclust.replication.update.descent_beside import descent_beside

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("averaged", [0, 1, 2])
def test_it_makes_the_same_updates(dtype: tf.DType, averaged: int) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.float32, [])
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(
            tf.compat.v1.train.exponential_decay(0.5, step, 1, 0.9)
        )
        values = np.linspace(-1, 1, 12).reshape(3, 4)
        ours, theirs = (
            [tf.Variable(values[:rows].astype(dtype.as_numpy_dtype)) for rows in (3, 1)]
            for _ in range(2)
        )
        gradients = [tf.exp(variable.read_value()) for variable in theirs]
        parts = [[gradient / (part + 1) for part in range(averaged)] for gradient in gradients]
        if averaged:
            means = [scaled_sum(each, tf.constant(1 / 3, tf.float64)) for each in parts]
            gradients = [scale(tf.add_n(each), tf.constant(1 / 3, tf.float64)) for each in parts]
        update = descent_beside(optimizer).apply_gradients(
            list(zip(means if averaged else gradients, ours, strict=True))
        )
        with tf.control_dependencies([update]):
            after = optimizer.apply_gradients(list(zip(gradients, theirs, strict=True)))
        session.run(tf.compat.v1.global_variables_initializer())
        for number in range(3):
            session.run(after, {step: number})
            for one, other in zip(session.run(ours), session.run(theirs), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_no_op_writes_over_the_values() -> None:
    with tf.Graph().as_default() as graph:
        variable = tf.compat.v1.get_variable(
            "weights", [3], initializer=tf.compat.v1.ones_initializer(), use_resource=True
        )
        descent = descent_beside(tf.compat.v1.train.GradientDescentOptimizer(0.5))
        descent.apply_gradients([(tf.ones([3]), variable)])
        written = [
            use.type for use in variable.handle.consumers() if use is not variable.initializer
        ]
        assert written.count("AssignVariableOp") == 1
        # TensorFlow's own would copy what another op still holds.
        assert not any("Apply" in operation.type for operation in graph.get_operations())


@pytest.mark.parametrize("name", ["AdamOptimizer", "MomentumOptimizer", "of a user"])
def test_other_optimizers_stay_as_they_are(name: str) -> None:
    class Own(tf.compat.v1.train.GradientDescentOptimizer):
        """Which may do something else."""

    optimizers = tf.compat.v1.train
    made = {
        "AdamOptimizer": lambda: optimizers.AdamOptimizer(0.1),
        "MomentumOptimizer": lambda: optimizers.MomentumOptimizer(0.1, 0.9),
    }
    optimizer = made.get(name, lambda: Own(0.1))()
    assert descent_beside(optimizer) is optimizer
