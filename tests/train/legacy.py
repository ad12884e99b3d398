"""A model of TensorFlow 1, with tf.layers: needs tf_keras and TF_USE_LEGACY_KERAS=1."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import psclust


def _input(mode: str, shard: psclust.Shard) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(
        (tf.constant([[1.0 + shard.index], [3.0 + shard.index]]), tf.constant([0.0, 1.0]))
    ).repeat(50)


def _model(features: Any, labels: Any, mode: str) -> psclust.EstimatorSpec:
    x = tf.compat.v1.layers.batch_normalization(
        features, momentum=0.5, training=mode == psclust.ModeKeys.TRAIN
    )
    x = tf.compat.v1.layers.dense(x, 1)[:, 0]
    return psclust.EstimatorSpec(mode, loss=tf.reduce_mean((x - labels) ** 2))


program = psclust.Program(_model, _input, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1))
