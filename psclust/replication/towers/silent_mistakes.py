"""Warnings about mistakes in a model function that TensorFlow accepts silently, one sentence each,
once a graph."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

import tensorflow as tf

from psclust.replication.graph_walk import before, reached
from psclust.replication.tf_types import Operation, Tensor, Variable

LOG = logging.getLogger(__name__)

_MOVING = ("moving_mean", "moving_variance")


def warn_of_silent_mistakes(
    loss: Tensor, update_ops: Iterable[Operation], moved: Iterable[Variable]
) -> None:
    """Warns about the model just built, with its own `update_ops`. psclust moves the variables
    `moved`."""
    known = {variable.op.name for variable in moved}
    still = [v for v in tf.compat.v1.global_variables() if _is_moving(v) and v.op.name not in known]
    if still:
        updating = _ancestors(update_ops)
        layers = sorted(
            {v.op.name.rpartition("/")[0] for v in still if v.handle.op.name not in updating}
        )
        if layers:
            LOG.warning(
                "%s: its moving statistics never change, because a Keras layer in a "
                "graph puts nothing into UPDATE_OPS, so evaluation will be wrong; "
                "use psclust.batch_normalization, or with tf_keras (TF_USE_LEGACY_KERAS=1) "
                "tf.compat.v1.layers, or add the layer's `updates` to UPDATE_OPS yourself",
                ", ".join(layers),
            )
    penalties = tf.compat.v1.losses.get_regularization_losses()
    contained = _ancestors([loss])
    if penalties and not any(penalty.op.name in contained for penalty in penalties):
        LOG.warning(
            "the model has %d regularization losses that its loss does not contain; "
            "add tf.compat.v1.losses.get_regularization_loss(), "
            "or return tf.compat.v1.losses.get_total_loss()",
            len(penalties),
        )


def _is_moving(variable: Variable) -> bool:
    return (
        not variable.trainable
        and variable.op.name.rpartition("/")[2].rstrip("_0123456789") in _MOVING
        and hasattr(variable, "handle")
    )


def _ancestors(ends: Iterable[Tensor | Operation]) -> Collection[str]:
    """The names of the ops that `ends` depend on, including themselves."""
    return reached([getattr(end, "op", end) for end in ends], before).keys()
