"""What a model function does that TensorFlow accepts in silence and that is hardly meant: one sentence each, once a graph."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

LOG = logging.getLogger(__name__)

_MOVING = ("moving_mean", "moving_variance")


def warn_of_silence(loss: Any, update_ops: Iterable[Any], moved: Iterable[Any]) -> None:
    """Logs warnings about the model that has just been built: `update_ops` are its own, `moved` the variables psclust moves for it."""
    known = {variable.op.name for variable in moved}
    still = [v for v in tf.compat.v1.global_variables() if _is_moving(v) and v.op.name not in known]
    if still:
        reached = _ancestors(update_ops)
        layers = sorted({v.op.name.rpartition("/")[0] for v in still if v.handle.op.name not in reached})
        if layers:
            LOG.warning(
                "%s: its moving statistics never change, because a Keras layer in a graph puts nothing into UPDATE_OPS, so evaluation will "
                "be wrong; use psclust.batch_normalization, or with tf_keras (TF_USE_LEGACY_KERAS=1) tf.compat.v1.layers, or add the "
                "layer's `updates` to UPDATE_OPS yourself",
                ", ".join(layers),
            )
    penalties = tf.compat.v1.losses.get_regularization_losses()
    if penalties and not {penalty.op.name for penalty in penalties} & _ancestors([loss]):
        LOG.warning(
            "the model has %d regularization losses that its loss does not contain; add tf.compat.v1.losses.get_regularization_loss(), or "
            "return tf.compat.v1.losses.get_total_loss()",
            len(penalties),
        )


def _is_moving(variable: Any) -> bool:
    return not variable.trainable and variable.op.name.rpartition("/")[2].rstrip("_0123456789") in _MOVING and hasattr(variable, "handle")


def _ancestors(ends: Iterable[Any]) -> set[str]:
    """The names of the ops that `ends` (ops or tensors) depend on, themselves included."""
    waiting = [getattr(end, "op", end) for end in ends]
    seen = {op.name for op in waiting}
    while waiting:
        current = waiting.pop()
        for before in (*(value.op for value in current.inputs), *current.control_inputs):
            if before.name not in seen:
                seen.add(before.name)
                waiting.append(before)
    return seen
