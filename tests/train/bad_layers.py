"""Programs with a mistake in a layer of Keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import psclust


class _Product(tf.keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return tf.matmul(x, tf.zeros([7, 2]))


class _Refuses(tf.keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        raise ValueError("not this input")


def _program(layer: Any) -> psclust.Program:
    def model_fn(features: Any, mode: str) -> psclust.EstimatorSpec:
        return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(layer()(features)))

    return psclust.Program(
        model_fn,
        lambda: tf.data.Dataset.from_tensors(tf.zeros([4, 3])),
        lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
    )


keras = _program(lambda: tf.keras.layers.Reshape((5, 2)))
own = _program(_Product)
refuses = _program(_Refuses)
