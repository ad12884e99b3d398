"""The layers that the examples are made of: Keras 3 has taken `tf.compat.v1.layers` away. Variables are made with `get_variable`, so that
towers share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Regularizer = Callable[[Any], Any]


def conv(x: Any, filters: int, name: str, *, size: int = 3, strides: int = 1, seed: int | None = None) -> Any:
    """`x` [batch, height, width, channels] convolved to `filters` channels; height and width are divided by `strides`."""
    with tf.compat.v1.variable_scope(name):
        kernel = _weights([size, size, int(x.shape[-1]), filters], seed)
        return tf.nn.bias_add(tf.nn.conv2d(x, kernel, strides, "SAME"), _biases(filters))


def pool(x: Any) -> Any:
    """The largest of every 2x2 pixels of `x` [batch, height, width, channels]."""
    return tf.nn.max_pool2d(x, 2, 2, "SAME")


def dense(x: Any, units: int, name: str, *, seed: int | None = None, regularizer: Regularizer | None = None) -> Any:
    """[batch, units] of `x` [batch, any]."""
    with tf.compat.v1.variable_scope(name):
        return tf.matmul(x, _weights([int(x.shape[-1]), units], seed, regularizer)) + _biases(units)


def _weights(shape: list[int], seed: int | None = None, regularizer: Regularizer | None = None) -> Any:
    """Initialized for layers that ReLU follows (K. He et al., "Delving Deep into Rectifiers", 2015)."""
    initializer = tf.compat.v1.initializers.he_normal(seed)
    return tf.compat.v1.get_variable("weights", shape, initializer=initializer, regularizer=regularizer)


def _biases(units: int) -> Any:
    return tf.compat.v1.get_variable("biases", [units], initializer=tf.compat.v1.zeros_initializer())
