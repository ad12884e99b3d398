"""One update of the variables, from complete gradients to the ops after which the step counts.

In order: weight decay, clipping by global norm, the check for values that are not finite, the
optimizer, moving statistics, the moving average of the weights. An in-graph step, the chief of a
synchronous barrier and every asynchronous replica build it once, so each part acts once an update,
however many replicas contributed.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.by_device import joined
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.gradients import GradientsAndVariables, clip, decay
from psclust.replication.private_tensorflow import create_slot
from psclust.replication.settings import Settings
from psclust.replication.statistics.batch_norm import move
from psclust.replication.tf_types import Operation, Optimizer, Tensor, Variable
from psclust.replication.towers.replica_context import Statistic
from psclust.replication.variables.training_state import State

# Marks the error message of an update with values that are not finite.
NOT_FINITE = "psclust_not_finite"


def apply_update(
    optimizer: Optimizer,
    gradients: GradientsAndVariables,
    statistics: Sequence[Statistic],
    state: State,
    layout: DeviceLayout,
    settings: Settings,
) -> Sequence[Operation]:
    """The ops of one update with the (averaged) `gradients` and `statistics`, in the current
    control dependencies."""
    with tf.device(layout.parameters):
        if settings.weight_decay:
            gradients = decay(gradients, settings.weight_decay)
        if settings.clip_norm is not None:
            gradients = clip(gradients, settings.clip_norm)
        checked = [_all_finite(gradients, state)] if settings.nan_guard == "gradients" else []
        with tf.control_dependencies(checked):
            applied = optimizer.apply_gradients(gradients)
            moved = [
                move(statistic.variable, statistic.value, 1 - statistic.momentum)
                for statistic in statistics
            ]
        if settings.average_decay is None:
            return [applied, *moved]
        with tf.control_dependencies([applied]):
            averages = move_averages(
                tf.compat.v1.trainable_variables(), settings.average_decay, state.global_step
            )
        return [*averages, *moved]


def _all_finite(gradients: GradientsAndVariables, state: State) -> Operation:
    """An op that fails with the names of the variables whose gradient is not finite;
    `psclust.train.nan_guard` parses them."""
    flags: dict[str, list[Tensor]] = {}
    checked: dict[str, list[str]] = {}
    for gradient, variable in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        with tf.device(variable.device):
            flags.setdefault(variable.device, []).append(tf.reduce_all(tf.math.is_finite(values)))
        checked.setdefault(variable.device, []).append(variable.op.name)
    finite = tf.concat(joined(flags), 0)
    names = tf.constant([name for each in checked.values() for name in each])
    bad = tf.strings.reduce_join(tf.boolean_mask(names, ~finite), separator=", ")
    where = tf.strings.join(
        [NOT_FINITE, " step=", tf.strings.as_string(state.global_step + 1), " variables=", bad, ";"]
    )
    return tf.debugging.Assert(tf.reduce_all(finite), [where], summarize=1)


AVERAGE = "ExponentialMovingAverage"


def move_averages(variables: Sequence[Variable], decay: float, step: Tensor) -> Sequence[Operation]:
    """The ops that move the averages of `variables`, in the current control dependencies, as
    `tf.compat.v1.train.ExponentialMovingAverage` does and under its names, with a third of its ops:
    that class takes each initial value from a `tf.cond`, for variables that are initialized earlier
    than their averages. The decay is min(decay, (1 + step) / (10 + step)), so that an average soon
    forgets the initial value, with which it begins. Each average is where its variable is. Raises
    UsageError for variables that are not of floats."""
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
        averages = [
            create_slot(variable, variable.initial_value, AVERAGE) for variable in variables
        ]
    moved = []
    for average, variable in zip(averages, variables, strict=True):
        with tf.device(variable.device):
            moved.append(move(average, variable.read_value(), tf.cast(rate, average.dtype)))
    return moved
