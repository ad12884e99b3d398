"""Moving averages of the weights, as `tf.compat.v1.train.ExponentialMovingAverage` keeps them, and
under its names, `<variable>/ExponentialMovingAverage`, with a third of its ops: that class takes
each initial value from a `tf.cond`, for variables that are initialized earlier than their
averages."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.private_tensorflow import create_slot
from psclust.replication.statistics.batch_norm import move
from psclust.replication.tf_types import Operation, Tensor, Variable

NAME = "ExponentialMovingAverage"


def move_averages(variables: Sequence[Variable], decay: float, step: Tensor) -> Sequence[Operation]:
    """The ops that move the averages of `variables`, in the current control dependencies. The decay
    is min(decay, (1 + step) / (10 + step)), so that an average soon forgets the initial value, with
    which it begins. Each average is where its variable is. Raises UsageError for variables that are
    not of floats."""
    others = [
        variable.op.name for variable in variables if not variable.dtype.base_dtype.is_floating
    ]
    if others:
        raise UsageError(
            f"average_decay: {', '.join(others)} cannot be averaged, only floats can; "
            "give it trainable=False if it is not trained"
        )
    updates = tf.cast(step, tf.float32)
    rate = 1 - tf.minimum(decay, (1 + updates) / (10 + updates))
    with tf.init_scope():
        averages = [create_slot(variable, variable.initial_value, NAME) for variable in variables]
    moved = []
    for average, variable in zip(averages, variables, strict=True):
        with tf.device(variable.device):
            moved.append(move(average, variable.read_value(), tf.cast(rate, average.dtype)))
    return moved
