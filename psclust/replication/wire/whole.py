"""The value of a partitioned variable, put together while its shards arrive.

`tf.concat` begins when it has all of them, so a step that begins with one copies all the bytes before it computes anything. Here each shard
is copied into its place when it comes, and with the last one the whole is there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from psclust.replication.tf_types import Tensor, Variable

# Rows are copied one by one, as long as all shards have whole ones; shorter rows take longer than the copy that they save.
_LEAST_ROW = 64


def can_be_put_together(parts: Sequence[Variable]) -> bool:
    """Whether that saves time."""
    return _row(parts) >= _LEAST_ROW


def put_together(parts: Sequence[Tensor]) -> Tensor:
    """The tensors, which have the same shape but for their number of rows, one after another, in the current device scope."""
    row = _row(parts)
    counts = [part.shape.num_elements() // row for part in parts]
    # Memory that nothing else has, so that it can be written in place: a step that still reads the value before keeps it.
    value = tf.raw_ops.Empty(shape=[sum(counts), row], dtype=parts[0].dtype, init=False)
    placed, above = [], 0
    for part, count in zip(parts, counts, strict=True):
        rows = tf.range(above, above + count)
        placed.append(tf.raw_ops.InplaceUpdate(x=value, i=rows, v=tf.reshape(part, [count, row])).op)
        above += count
    with tf.control_dependencies(placed):
        return tf.reshape(tf.identity(value), [sum(part.shape[0] for part in parts), *parts[0].shape[1:]])


def _row(parts: Sequence[Tensor | Variable]) -> int:
    return math.gcd(*(part.shape.num_elements() for part in parts))
