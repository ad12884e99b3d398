"""The two layers that the examples are made of: Keras 3 has taken `tf.compat.v1.layers` away. Their variables are made with `get_variable`,
so that towers share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Regularizer = Callable[[Any], Any]


def conv(
    x: Any, filters: int, name: str, *, size: int = 3, strides: int = 1, seed: int | None = None, regularizer: Regularizer | None = None
) -> Any:
    """`x` [batch, height, width, channels] convolved, padded to `filters` channels of the same height and width, over `strides`."""
    with tf.compat.v1.variable_scope(name):
        kernel = weights([size, size, int(x.shape[-1]), filters], seed, regularizer)
        return tf.nn.bias_add(tf.nn.conv2d(x, kernel, strides, "SAME"), biases(filters))


def dense(x: Any, units: int, name: str, *, seed: int | None = None, regularizer: Regularizer | None = None) -> Any:
    """[batch, units] of `x` [batch, any]."""
    with tf.compat.v1.variable_scope(name):
        return tf.matmul(x, weights([int(x.shape[-1]), units], seed, regularizer)) + biases(units)


def weights(shape: list[int], seed: int | None = None, regularizer: Regularizer | None = None) -> Any:
    """Initialized for layers that ReLU follows (K. He et al., "Delving Deep into Rectifiers", 2015)."""
    initializer = tf.compat.v1.initializers.he_normal(seed)
    return tf.compat.v1.get_variable("weights", shape, initializer=initializer, regularizer=regularizer)


def biases(units: int) -> Any:
    return tf.compat.v1.get_variable("biases", [units], initializer=tf.compat.v1.zeros_initializer())
