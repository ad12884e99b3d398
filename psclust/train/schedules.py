"""`psclust.schedules`: learning rates that depend on the global step, for an optimizer in
`optimizer_fn(params, global_step)`.

Each returns a float32 scalar tensor. The rate is computed once an update, on the device of the
global step, and travels as one number. Where TensorFlow has the same schedule, it is used; it must
be called in a graph, as here.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.tf_types import Tensor

__all__ = ["cosine", "exponential", "piecewise", "polynomial", "warm_up"]


def exponential(
    rate: float, global_step: Tensor, steps: int, decay: float, *, staircase: bool = False
) -> Tensor:
    """`rate * decay ** (global_step / steps)`; with `staircase` the exponent is rounded down."""
    _need_steps("exponential", steps)
    return tf.compat.v1.train.exponential_decay(
        rate, global_step, steps, decay, staircase=staircase
    )


def polynomial(
    rate: float,
    global_step: Tensor,
    steps: int,
    *,
    end: float = 0.0,
    power: float = 1.0,
    cycle: bool = False,
) -> Tensor:
    """From `rate` to `end` in `steps`: `(rate - end) * (1 - global_step / steps) ** power + end`,
    then `end`. With `cycle`, `steps` doubles, triples, ... each time it is reached."""
    _need_steps("polynomial", steps)
    return tf.compat.v1.train.polynomial_decay(rate, global_step, steps, end, power, cycle)


def piecewise(global_step: Tensor, boundaries: Sequence[int], rates: Sequence[float]) -> Tensor:
    """`rates[i]` up to and including step `boundaries[i]`, the last rate after the last boundary.
    Raises UsageError unless there is exactly one rate more than boundaries, and the boundaries
    grow."""
    if len(rates) != len(boundaries) + 1:
        raise UsageError(
            f"schedules.piecewise: {len(boundaries)} boundaries need {len(boundaries) + 1} rates, "
            f"and there are {len(rates)}; "
            "give one rate before the first boundary and one after each"
        )
    if list(boundaries) != sorted(set(boundaries)):
        raise UsageError(
            f"schedules.piecewise: the boundaries {list(boundaries)} do not grow; sort them"
        )
    step = tf.cast(global_step, tf.int64)
    passed = tf.reduce_sum(tf.cast(step > tf.constant(list(boundaries), tf.int64), tf.int32))
    return tf.gather(tf.constant(list(rates), tf.float32), passed)


def cosine(rate: float, global_step: Tensor, steps: int, *, end: float = 0.0) -> Tensor:
    """From `rate` to `end` along half a cosine in `steps`, then `end` (I. Loshchilov and F. Hutter,
    "SGDR", 2016, without restarts)."""
    _need_steps("cosine", steps)
    part = tf.minimum(tf.cast(global_step, tf.float32) / steps, 1.0)
    return end + (rate - end) * 0.5 * (1.0 + tf.cos(part * 3.141592653589793))


def warm_up(rate: float | Tensor, global_step: Tensor, steps: int, *, start: float = 0.0) -> Tensor:
    """`rate`, a number or any schedule, times a factor that grows linearly from `start` to 1 in the
    first `steps` steps."""
    _need_steps("warm_up", steps)
    part = tf.minimum(tf.cast(global_step, tf.float32) / steps, 1.0)
    return tf.convert_to_tensor(rate, tf.float32) * (start + (1.0 - start) * part)


def _need_steps(name: str, steps: int) -> None:
    if steps <= 0:
        raise UsageError(
            f"schedules.{name}: steps is {steps}; it must be a positive number of steps"
        )
