"""Semantic segmentation: an image-to-image network on scenes of real handwritten digits, with image
summaries of every tower.

    psclust up -f cluster_specs/segmentation.yaml

A scene has 24x24 pixels with one of scikit-learn's 8x8 digits at a random place in each quarter.
The class of a pixel is the digit whose ink it is, or background. Training and held-out scenes have
no digit in common. Scenes are composed because scikit-learn ships no images with a label for every
pixel.

Trains in every kind of replication, with the mean of all replicas' moving statistics. The cluster
file adds `statistics_every`, with which towers keep their own statistics and average them every few
updates: in-graph and synchronous only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import psclust
from psclust.examples.data import digits
from psclust.examples.layers import conv, pool

_SIDE, _QUARTER = 24, 12
_BACKGROUND, _CLASSES = 0, 11
_INK = 4  # of 16
# One color a class, black for the background.
COLORS = np.random.default_rng(3).integers(60, 255, (_CLASSES, 3), np.uint8)
COLORS[_BACKGROUND] = 0


def scenes(count: int, *, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """(images [count, 24, 24] uint8 in 0..16, classes [count, 24, 24] uint8: 0 background, i + 1
    ink of digit i)."""
    random = np.random.default_rng(int(held_out))
    digit_images, labels = digits(held_out=held_out)
    images, classes = np.zeros((2, count, _SIDE, _SIDE), np.uint8)
    for scene in range(count):
        for row, column in ((0, 0), (0, _QUARTER), (_QUARTER, 0), (_QUARTER, _QUARTER)):
            chosen = random.integers(len(labels))
            top, left = random.integers(
                (row, column), (row + _QUARTER - 8, column + _QUARTER - 8), endpoint=True
            )
            place = (scene, slice(top, top + 8), slice(left, left + 8))
            images[place] = digit_images[chosen]
            classes[place] = np.where(digit_images[chosen] >= _INK, labels[chosen] + 1, _BACKGROUND)
    return images, classes


def input_fn(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Batches of (scenes [batch, 24, 24, 1] float32 in 0..1, classes [batch, 24, 24] int32)."""
    if mode != psclust.ModeKeys.TRAIN:
        return tf.data.Dataset.from_tensor_slices(scenes(90, held_out=True)).batch(90).map(_floats)
    images, classes = scenes(params["scenes"], held_out=False)
    dataset = tf.data.Dataset.from_tensor_slices((images, classes)).shard(shard.count, shard.index)
    return (
        dataset.shuffle(len(images), seed=1)
        .repeat(params["epochs"])
        .batch(params["batch_size"])
        .map(_floats)
        .prefetch(2)
    )


def _floats(images: tf.Tensor, classes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.cast(images[..., None], tf.float32) / 16.0, tf.cast(classes, tf.int32)


def model_fn(
    features: tf.Tensor, labels: tf.Tensor, mode: str, params: dict[str, Any]
) -> psclust.EstimatorSpec:
    """A U-Net: down to a quarter of the resolution and up again, with skip connections between
    layers of the same resolution."""
    training, filters = mode == psclust.ModeKeys.TRAIN, params["filters"]
    whole = _layer(features, filters, training, "whole")
    half = _layer(pool(whole), 2 * filters, training, "half")
    quarter = _layer(pool(half), 4 * filters, training, "quarter")
    half = _layer(tf.concat([half, _double(quarter)], -1), 2 * filters, training, "half_again")
    whole = _layer(tf.concat([whole, _double(half)], -1), filters, training, "whole_again")
    logits = conv(whole, _CLASSES, "softmax", size=1)
    classes = tf.argmax(logits, -1, tf.int32)
    if mode == psclust.ModeKeys.PREDICT:
        return psclust.EstimatorSpec(mode, predictions={"classes": classes})
    if training:
        _show(features, labels, classes)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    metrics = {
        "mean_iou": tf.compat.v1.metrics.mean_iou(labels, classes, _CLASSES),
        "ink_accuracy": tf.compat.v1.metrics.accuracy(
            labels, classes, weights=tf.not_equal(labels, _BACKGROUND)
        ),
    }
    return psclust.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)


def _layer(x: tf.Tensor, filters: int, training: bool, name: str) -> tf.Tensor:
    with tf.compat.v1.variable_scope(name):
        return tf.nn.relu(
            psclust.batch_normalization(
                conv(x, filters, "conv"), training, momentum=0.9, name="norm"
            )
        )


def _double(x: tf.Tensor) -> tf.Tensor:
    return tf.repeat(tf.repeat(x, 2, 1), 2, 2)


def _show(scenes: tf.Tensor, truth: tf.Tensor, guess: tf.Tensor) -> None:
    """Summarizes the first scene of a batch, its labels and its predictions, for each tower."""
    tf.compat.v1.summary.image("scene", scenes, max_outputs=1)
    tf.compat.v1.summary.image("truth", tf.gather(COLORS, truth), max_outputs=1)
    tf.compat.v1.summary.image("guess", tf.gather(COLORS, guess), max_outputs=1)


def optimizer_fn(params: dict[str, Any], global_step: Any) -> tf.compat.v1.train.Optimizer:
    rate = psclust.schedules.polynomial(
        params["learning_rate"], global_step, params["decay_steps"], end=1e-4, power=0.9
    )
    return tf.compat.v1.train.AdamOptimizer(rate)


program = psclust.Program(
    model_fn,
    input_fn,
    optimizer_fn,
    params={
        "batch_size": 16,
        "epochs": 6,
        "scenes": 800,
        "learning_rate": 0.01,
        "decay_steps": 300,
        "filters": 16,
    },
    seed=7,
    config=psclust.TrainConfig(moving_statistics="mean", summary_steps=50),
)
