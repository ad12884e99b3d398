"""A program whose chief has a loss that is not finite at batch `BAD`, while the other worker gets
no batch any more after it; a module by itself, because the process that trains it imports it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import psclust

BAD, WIDTH = 8, 700


def _input(shard: psclust.Shard) -> tf.data.Dataset:
    def batches() -> Iterator[Any]:
        for number in range(1, BAD + 1):
            yield np.full(
                [4, WIDTH], np.nan if number == BAD and shard.index == 0 else 0.5, np.float32
            )
        if shard.index == 1:
            threading.Event().wait()
        while True:
            yield np.zeros([4, WIDTH], np.float32)

    return tf.data.Dataset.from_generator(
        batches, output_signature=tf.TensorSpec([4, WIDTH], tf.float32)
    )


def _model(features: Any) -> psclust.EstimatorSpec:
    x = features
    for layer in range(2):
        x = tf.matmul(x, tf.compat.v1.get_variable(f"layer{layer}", [WIDTH, WIDTH]))
    return psclust.EstimatorSpec("train", loss=tf.reduce_mean(x**2))


program = psclust.Program(
    _model, _input, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.001)
)
