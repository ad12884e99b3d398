"""The value of a partitioned variable, put together while its shards arrive.

`tf.concat` begins when it has all of them, so a step that begins with one copies all the bytes
before it computes anything. Here each shard is written into its place when it comes, and with the
last one the whole is there. psclust's own kernel (`native/int8_kernels.c`) takes a shard as it
has travelled, so that no copy of its values is made before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from psclust.placement.wire_bytes import blocks_of
from psclust.replication import kernels
from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.wire import eight_bits

# Without the kernel, rows are copied one by one, as long as all shards have whole ones; shorter
# rows take longer than the copy that they save.
_LEAST_ROW = 64


def can_be_put_together(parts: Sequence[Variable]) -> bool:
    """Whether that saves time."""
    return _kernels(parts[0].dtype) is not None or _row(parts) >= _LEAST_ROW


def arrives_as(parts: Sequence[Variable], wire_dtype: str) -> str | None:
    """The dtype of the values that are best given to `put_together` as they have travelled; None if
    they have that of the parts."""
    return "bfloat16" if wire_dtype != "float32" and _kernels(parts[0].dtype) is not None else None


def put_together(
    parts: Sequence[Tensor], dtype: Any, bases: Sequence[Tensor | None] | None = None
) -> Tensor:
    """Tensors, which have the same shape but for their number of rows, one after another, in the
    current device scope. Where there is a base, the part is the int8 message of what is to be added
    to it. dtype: of the result; of parts, too, but as `arrives_as` says."""
    bases = bases or [None] * len(parts)
    shaped = [part if base is None else base for part, base in zip(parts, bases, strict=True)]
    row = _row(shaped)
    counts = [each.shape.num_elements() // row for each in shaped]
    # Memory that nothing else has, so that it can be written in place: a step that still reads the
    # value before keeps it.
    value = tf.raw_ops.Empty(shape=[sum(counts), row], dtype=dtype, init=False)
    placed, above = [], 0
    for part, base, count in zip(parts, bases, counts, strict=True):
        placed.append(_placed(value, part, base, above, count, row))
        above += count
    with tf.control_dependencies(placed):
        return tf.reshape(
            tf.identity(value), [sum(each.shape[0] for each in shaped), *shaped[0].shape[1:]]
        )


def _placed(
    value: Tensor, part: Tensor, base: Tensor | None, above: int, count: int, row: int
) -> Operation:
    """The op that writes a part of `count` rows, below those `above`."""
    if fused := _kernels(value.dtype):
        _, block = blocks_of(count * row)
        return fused.psclust_place(
            value,
            part,
            [] if base is None else [base],
            at=above * row,
            count=count * row,
            block=block,
        )
    values = part if base is None else eight_bits.add(part, base)
    return tf.raw_ops.InplaceUpdate(
        x=value, i=tf.range(above, above + count), v=tf.reshape(values, [count, row])
    ).op


def _kernels(dtype: Any) -> Any:
    return kernels.in_use() if dtype.base_dtype == tf.float32 else None


def _row(parts: Sequence[Tensor | Variable]) -> int:
    return math.gcd(*(part.shape.num_elements() for part in parts))
