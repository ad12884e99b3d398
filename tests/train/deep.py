"""A net of several layers, each too large to travel in a bucket; a module by itself, because the
process that trains it imports it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import psclust

BATCH, STEPS, LAYERS = 12, 20, 6


def _input(shard: psclust.Shard) -> tf.data.Dataset:
    x = tf.random.stateless_normal([BATCH * STEPS, 100], [1, 2])
    y = tf.sin(x[:, :1])
    return (
        tf.data.Dataset.from_tensor_slices((x, y))
        .shard(shard.count, shard.index)
        .batch(BATCH // shard.count)
    )


def _model(features: Any, labels: Any, mode: str) -> psclust.EstimatorSpec:
    x = features
    for layer in range(LAYERS):
        start = tf.compat.v1.glorot_uniform_initializer(seed=layer)
        x = tf.nn.tanh(
            tf.matmul(x, tf.compat.v1.get_variable(f"layer{layer}", [100, 100], initializer=start))
        )
    return psclust.EstimatorSpec(mode, loss=tf.reduce_mean((x[:, :1] - labels) ** 2))


def program(**config: Any) -> psclust.Program:
    return psclust.Program(
        _model,
        _input,
        lambda: tf.compat.v1.train.AdamOptimizer(0.001),
        config=psclust.TrainConfig(**config),
    )
