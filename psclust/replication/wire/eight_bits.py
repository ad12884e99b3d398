"""Dense float32 values in a quarter of their bytes: one byte each, and a float32 scale for every
block of at most 1,024 values.

The value of the largest magnitude in a block becomes 127 or -127, the others keep their ratio to
it, rounded to the nearest whole number: the error is at most half a scale. What rounding takes from
a gradient is kept on its worker and added to the next one, so that the sum over the steps is right
(error feedback; Seide et al., 1-bit stochastic gradient descent, Interspeech 2014). A block with a
value that is not finite arrives as values that are not finite. Graphs that may do this by psclust's
own kernels (see `kernels`) send the same messages.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from psclust.placement.wire_bytes import blocks_of
from psclust.replication import kernels
from psclust.replication.device_layout import host_of
from psclust.replication.tf_types import Gradient, Tensor, Variable

_LARGEST = 127.0
# 1 / scale has to be finite. Blocks of smaller values travel as zeros.
_SMALLEST = 1e-37


def encode(values: Tensor) -> tuple[Tensor, Tensor]:
    """(the message that `decode` understands: int8, one dimension; the values that `decode` will
    return). `values`: float32, of static shape."""
    blocks = _blocks(values)
    # Without the copy of all values that their magnitudes would be.
    largest = tf.maximum(
        tf.reduce_max(blocks, 1, keepdims=True), -tf.reduce_min(blocks, 1, keepdims=True)
    )
    scales = tf.where(largest < _LARGEST * _SMALLEST, tf.zeros_like(largest), largest / _LARGEST)
    rounded = tf.round(blocks * tf.math.divide_no_nan(1.0, scales))
    # The scales come last, because a part of a tensor that is not aligned is copied when it is
    # split off.
    message = tf.concat(
        [
            tf.reshape(tf.cast(rounded, tf.int8), [-1]),
            tf.reshape(tf.bitcast(scales, tf.int8), [-1]),
        ],
        0,
    )
    return message, _values(rounded * scales, values.shape)


def encode_sum(values: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
    """(the message of values + left; what rounding takes from them)."""
    if fused := kernels.in_use():
        return _fused(fused, values, left, difference=False)
    total = values + left
    message, arriving = encode(total)
    return message, total - arriving


def encode_difference(values: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """(the message that `add` understands, of values - known; what one that knew `known` knows when
    it has arrived)."""
    if fused := kernels.in_use():
        return _fused(fused, values, known, difference=True)
    message, arriving = encode(values - known)
    return message, known + arriving


def decode(message: Tensor, shape: tf.TensorShape) -> Tensor:
    """The float32 values of `shape` that `encode` has put into `message`."""
    rows, block = blocks_of(shape.num_elements())
    if fused := kernels.in_use():
        return tf.reshape(
            fused.psclust_decode(message, [], count=shape.num_elements(), block=block), shape
        )
    rounded, scales = tf.split(message, [rows * block, rows * tf.float32.size])
    scales = tf.bitcast(tf.reshape(scales, [rows, 1, tf.float32.size]), tf.float32)
    return _values(tf.cast(tf.reshape(rounded, [rows, block]), tf.float32) * scales, shape)


def add(message: Tensor, values: Tensor) -> Tensor:
    """The values with those of a message added."""
    if fused := kernels.in_use():
        count = values.shape.num_elements()
        _, block = blocks_of(count)
        return tf.reshape(
            fused.psclust_decode(message, [values], count=count, block=block), values.shape
        )
    return values + decode(message, values.shape)


def message_bytes(shape: tf.TensorShape) -> int:
    """The length of the message of values of `shape`."""
    rows, block = blocks_of(shape.num_elements())
    return rows * (block + tf.float32.size)


def fits(value: Gradient) -> bool:
    """Whether `encode` takes the value."""
    return (
        not isinstance(value, tf.IndexedSlices)
        and value.dtype == tf.float32
        and value.shape.is_fully_defined()
    )


def encode_with_rest(gradient: Tensor, variable: Variable, worker: str) -> Tensor:
    """The message of a gradient of the variable, on the device `worker`, with what was left from
    the steps before."""
    with tf.device(host_of(worker)):
        left = tf.compat.v1.Variable(
            lambda: tf.zeros(gradient.shape),
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            name=f"{variable.op.name}/left",
            use_resource=True,
            dtype=tf.float32,
        )
        message, rest = encode_sum(gradient, left.read_value())
        with tf.control_dependencies([left.assign(rest, read_value=False)]):
            return tf.identity(message)


def _fused(fused: Any, values: Tensor, base: Tensor, *, difference: bool) -> tuple[Tensor, Tensor]:
    _, block = blocks_of(values.shape.num_elements())
    message, kept = fused.psclust_encode(values, base, block=block, difference=difference)
    message.set_shape([message_bytes(values.shape)])
    return message, tf.reshape(kept, values.shape)


def _blocks(values: Tensor) -> Tensor:
    count = values.shape.num_elements()
    rows, block = blocks_of(count)
    flat = tf.reshape(values, [-1])
    return tf.reshape(
        tf.pad(flat, [[0, rows * block - count]]) if rows * block > count else flat, [rows, block]
    )


def _values(blocks: Tensor, shape: tf.TensorShape) -> Tensor:
    return tf.reshape(tf.reshape(blocks, [-1])[: shape.num_elements()], shape)
