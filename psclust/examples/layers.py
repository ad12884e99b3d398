"""Layers of the examples, because Keras 3 removed `tf.compat.v1.layers`. Variables are made with
`get_variable`, so towers share them."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

Regularizer = Callable[[tf.Variable], tf.Tensor]


def conv(
    x: tf.Tensor,
    filters: int,
    name: str,
    *,
    size: int = 3,
    strides: int = 1,
    seed: int | None = None,
) -> tf.Tensor:
    """`x` [batch, height, width, channels] convolved to `filters` channels; height and width are
    divided by `strides`."""
    with tf.compat.v1.variable_scope(name):
        kernel = _weights([size, size, int(x.shape[-1]), filters], seed)
        return tf.nn.bias_add(tf.nn.conv2d(x, kernel, strides, "SAME"), _biases(filters))


def pool(x: tf.Tensor) -> tf.Tensor:
    """`x` [batch, height, width, channels] max-pooled over 2x2 pixels."""
    return tf.nn.max_pool2d(x, 2, 2, "SAME")


def dense(
    x: tf.Tensor,
    units: int,
    name: str,
    *,
    seed: int | None = None,
    regularizer: Regularizer | None = None,
) -> tf.Tensor:
    """A fully connected layer: `x` [batch, any] to [batch, units]."""
    with tf.compat.v1.variable_scope(name):
        return tf.matmul(x, _weights([int(x.shape[-1]), units], seed, regularizer)) + _biases(units)


def _weights(
    shape: list[int], seed: int | None = None, regularizer: Regularizer | None = None
) -> tf.Variable:
    """Initialized for a layer with ReLU (K. He et al., "Delving Deep into Rectifiers", 2015)."""
    initializer = tf.compat.v1.initializers.he_normal(seed)
    return tf.compat.v1.get_variable(
        "weights", shape, initializer=initializer, regularizer=regularizer
    )


def _biases(units: int) -> tf.Variable:
    return tf.compat.v1.get_variable(
        "biases", [units], initializer=tf.compat.v1.zeros_initializer()
    )
