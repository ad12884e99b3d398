"""Accumulators: what holds gradients on the ps of their variable, dense or sparse, until somebody takes their sum.

An accumulator has a number, refuses a gradient with an older one without a word, and counts its number up whenever it is taken from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def accumulator_for(gradient: Any, variable: Any, owner: int | None = None) -> Any:
    """The accumulator of a variable, shared by the graphs of all workers; `owner`: the worker whose gradients alone it holds."""
    sparse = isinstance(gradient, tf.IndexedSlices)
    kind = tf.compat.v1.SparseConditionalAccumulator if sparse else tf.compat.v1.ConditionalAccumulator
    # No variable's name has this sign.
    name = f"psclust/{variable.op.name}" + ("" if owner is None else f"@{owner}")
    with tf.device(variable.device):
        # SUM, not MEAN: the sparse accumulator's mean divides every row by how many workers touched that row.
        return kind(variable.dtype.base_dtype, shape=variable.shape, shared_name=name, reduction_type="SUM")


def push(accumulator: Any, gradient: Any, variable: Any, stamp: Any) -> Any:
    """The op that adds a gradient numbered `stamp`, int64 scalar."""
    with tf.device(variable.device):
        if isinstance(gradient, tf.IndexedSlices):
            return accumulator.apply_indexed_slices_grad(gradient, local_step=stamp)
        return accumulator.apply_grad(gradient, local_step=stamp)


def take(accumulator: Any, variable: Any) -> Any:
    """The sum of what has been added, a tensor or IndexedSlices, which empties the accumulator; waits where there is nothing."""
    with tf.device(variable.device):
        if isinstance(accumulator, tf.compat.v1.SparseConditionalAccumulator):
            return accumulator.take_indexed_slices_grad(1)
        return accumulator.take_grad(1)


def op_of(taken: Any) -> Any:
    """The op behind what `take` returned; run by itself it only empties the accumulator."""
    return taken.values.op if isinstance(taken, tf.IndexedSlices) else taken.op


def at(variable: Any, build: Callable[..., Any], *arguments: Any) -> Any:
    """What `build` returns when it is called on the device of `variable`."""
    with tf.device(variable.device):
        return build(*arguments)
