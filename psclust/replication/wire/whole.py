"""The value of a partitioned variable, put together while its shards arrive.

`tf.concat` begins when it has all of them, so a step that begins with one copies all the bytes
before it computes anything. Here psclust's own kernel (`native/int8_kernels.c`) writes each shard
into its place when it comes, and as it has travelled, so that no copy of its values is made before.
With the last one the whole is there.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from psclust.placement.wire_bytes import blocks_of
from psclust.replication import kernels
from psclust.replication.tf_types import Tensor, Variable


def can_be_put_together(parts: Sequence[Variable]) -> bool:
    """Whether the current graph has the kernel, which is for float32."""
    return parts[0].dtype.base_dtype == tf.float32 and kernels.in_use() is not None


def put_together(parts: Sequence[Tensor], bases: Sequence[Tensor | None] | None = None) -> Tensor:
    """Tensors, which have the same shape but for their number of rows, one after another, in the
    current device scope: float32, or bfloat16 as it has travelled. Where there is a base, the part
    is the int8 message of what is to be added to it."""
    bases = bases or [None] * len(parts)
    whole_parts = zip(parts, bases, strict=True)
    shapes = [(part if base is None else base).shape for part, base in whole_parts]
    counts = [shape.num_elements() for shape in shapes]
    # Memory that nothing else has, so that it can be written in place: a step that still reads the
    # value before keeps it.
    value = tf.raw_ops.Empty(shape=[sum(counts)], dtype=tf.float32, init=False)
    placed, above = [], 0
    for part, base, count in zip(parts, bases, counts, strict=True):
        known, (_, block) = [] if base is None else [base], blocks_of(count)
        placed.append(
            kernels.in_use().psclust_place(value, part, known, at=above, count=count, block=block)
        )
        above += count
    with tf.control_dependencies(placed):
        return tf.reshape(tf.identity(value), [sum(shape[0] for shape in shapes), *shapes[0][1:]])
