"""Plain gradient descent that leaves the values of a variable where they are, and makes the new
ones beside them.

TensorFlow's op writes over a variable. A streamed round keeps the values before it, so that op
first copies them. The new values can take the place of the gradients' sum, which nothing needs any
more.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from psclust.replication.gradients import GradientsAndVariables
from psclust.replication.private_tensorflow import learning_rate_of
from psclust.replication.tf_types import Operation, Optimizer, Tensor


def descent_beside(optimizer: Optimizer) -> Optimizer:
    """What makes the same updates of dense gradients: `optimizer` itself, unless it is plain
    gradient descent."""
    return (
        _DescentBeside(optimizer)
        if type(optimizer) is tf.compat.v1.train.GradientDescentOptimizer
        else optimizer
    )


class _DescentBeside:
    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def apply_gradients(self, gradients: GradientsAndVariables) -> Operation:
        rate = learning_rate_of(self._optimizer)
        assigned: list[Operation] = []
        # One for all variables of a ps.
        steps: dict[Any, Tensor] = {}
        for gradient, variable in gradients:
            total, factor = _as_product(gradient)
            key = (variable.device, factor.name)
            with tf.device(variable.device):
                if key not in steps:
                    steps[key] = tf.cast(rate, factor.dtype) * factor
                assigned.append(
                    variable.assign(variable.read_value() - total * steps[key], read_value=False)
                )
        return tf.group(*assigned)


def _as_product(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """(tensor, scalar), whose product the gradient is: the learning rate can be multiplied with the
    scalar."""
    operation = gradient.op
    if operation.type == "Mul" and operation.inputs[1].shape.rank == 0:
        return operation.inputs[0], operation.inputs[1]
    return gradient, tf.ones([], gradient.dtype)
