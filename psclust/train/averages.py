"""Evaluating with the moving averages of the weights that a training with `TrainConfig.average_decay` has kept."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def averaged_weights() -> Any:
    """Creates the averages of the current graph's trainable variables, under the names TensorFlow gives them, so that they are restored
    like all others; returns the op that then puts them in the variables' places."""
    assigned = []
    for variable in tf.compat.v1.trainable_variables():
        with tf.device(variable.device):
            average = tf.compat.v1.get_variable(
                f"{variable.op.name}/ExponentialMovingAverage",
                variable.shape,
                variable.dtype.base_dtype,
                initializer=tf.compat.v1.zeros_initializer(),
                trainable=False,
                use_resource=True,
            )
            assigned.append(variable.assign(average.read_value(), read_value=False))
    return tf.group(*assigned)
