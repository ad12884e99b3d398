"""The programs of `../handing_out.py` and `../elastic_loss.py`, whose data comes in parts:
`parts:small`, the model of `models.py`, and `parts:learning`, a small network over scikit-learn's
digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import models
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

import psclust
from psclust.examples.data import DIGITS_TRAINED_ON, digits

SIZE = 50
"""Batches of a part of `small`."""

BATCH, PART = 16, 64
"""Examples of a batch, and of a part, of `learning`."""


def _small(features: Any, labels: Any, mode: str) -> psclust.EstimatorSpec:
    loss = models.MODELS["small"].loss(tf.compat.v1.get_variable, features, labels)
    return psclust.EstimatorSpec(mode, loss=loss)


def _one_batch(part: Any) -> tf.data.Dataset:
    return models.MODELS["small"].dataset().take(part[1] - part[0])


small = psclust.Program(
    _small,
    _one_batch,
    lambda: tf.compat.v1.train.GradientDescentOptimizer(models.RATE),
    data_parts=psclust.ranges(100_000 * SIZE, SIZE),
    config=psclust.TrainConfig(save_seconds=None),
)


def network(get: Any, images: Any) -> Any:
    """The logits of 8x8 images, float32 [n, 64]. get(name, shape): a weight."""
    hidden = tf.nn.relu(images @ get("kernel_0", [64, 32]) + get("bias_0", [32]))
    return hidden @ get("kernel_1", [32, 10]) + get("bias_1", [10])


def mean_loss(logits: Any, labels: Any) -> Any:
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def flat(images: Any) -> Any:
    return images.reshape(-1, 64).astype("float32") / 16.0


def _learning(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any]
) -> psclust.EstimatorSpec:
    def get(name: str, shape: list[int]) -> Any:
        initializer = tf.compat.v1.glorot_uniform_initializer(seed=int(params["seed"]))
        if len(shape) == 1:
            initializer = tf.compat.v1.zeros_initializer()
        return tf.compat.v1.get_variable(name, shape, initializer=initializer)

    return psclust.EstimatorSpec(mode, loss=mean_loss(network(get, features), labels))


def _digits(part: Any, params: Mapping[str, Any]) -> tf.data.Dataset:
    """Batches that take `pause` seconds each while there is a file `slow`."""
    images, labels = digits(held_out=False)
    rows = tf.constant(flat(images))[part[0] : part[1]], tf.constant(labels)[part[0] : part[1]]

    def paced(*batch: Any) -> tf.data.Dataset:
        # Of each batch anew: what is constant is looked at once.
        nothing = tf.strings.substr(tf.strings.as_string(batch[1][0]), 0, 0)
        waits = tf.size(tf.io.matching_files(params["slow"] + nothing)) > 0
        pause = tf.where(waits, tf.constant(int(params["pause"] * 1e6), tf.int64), 0)
        return tf.data.Dataset.from_tensors(batch).apply(testing.sleep(pause)).take(1)

    return tf.data.Dataset.from_tensor_slices(rows).batch(BATCH).flat_map(paced)


learning = psclust.Program(
    _learning,
    _digits,
    lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
    data_parts=psclust.ranges(DIGITS_TRAINED_ON, PART),
    params={"pause": 0.2, "slow": "/slow", "seed": 0},
    config=psclust.TrainConfig(epochs=30, shuffle_parts=True, save_seconds=None),
)
