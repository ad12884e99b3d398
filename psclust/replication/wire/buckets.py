"""Buckets: small tensors between the same two tasks travel in one message, because the cost of a
message hardly depends on its size. Known for gradients; here pulled variables travel in buckets
too."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from psclust.placement.wire_bytes import SMALL_BYTES
from psclust.replication.tf_types import Gradient, Tensor


def is_small(tensor: Gradient) -> bool:
    """Whether `tensor` goes into a bucket: it is dense, small, and of static shape."""
    if isinstance(tensor, tf.IndexedSlices) or not tensor.shape.is_fully_defined():
        return False
    return bool(tensor.shape.num_elements() * tensor.dtype.size <= SMALL_BYTES)


def carry(tensors: Sequence[Tensor], source: str, target: str) -> list[Tensor]:
    """Sends `tensors`, small ones of one dtype, from device `source` to device `target` in one
    message. Returns them on `target`."""
    with tf.device(source):
        bucket = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0, name="bucket")
    with tf.device(target):
        parts = tf.split(bucket, [tensor.shape.num_elements() for tensor in tensors])
        return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
