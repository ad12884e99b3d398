"""Which optimizers update each element of a variable by itself, so that shards of it are updated as
the whole would be."""

from __future__ import annotations

import tensorflow as tf

from psclust.replication.tf_types import Optimizer

_train = tf.compat.v1.train
_ELEMENT_WISE = (
    _train.AdadeltaOptimizer,
    _train.AdagradDAOptimizer,
    _train.AdagradOptimizer,
    _train.AdamOptimizer,
    _train.FtrlOptimizer,
    _train.GradientDescentOptimizer,
    _train.MomentumOptimizer,
    _train.ProximalAdagradOptimizer,
    _train.ProximalGradientDescentOptimizer,
    _train.RMSPropOptimizer,
)


def needs_whole_variables(optimizer: Optimizer | None) -> str | None:
    """Why what `optimizer` computes may depend on where a variable is cut; None if it does not. One
    with a norm for each variable (LARS, LAMB) does; a subclass may do anything."""
    if optimizer is None:
        return "the model's own train_op is not known to be element-wise"
    if type(optimizer) in _ELEMENT_WISE:
        return None
    return f"{type(optimizer).__name__} is not known to be element-wise"
