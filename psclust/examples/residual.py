"""A residual network on real handwritten digits: batch normalization, exponential learning rate
decay, evaluation of averaged weights.

    psclust up --ps 2 --workers 2 psclust.examples.residual:program

After K. He et al., "Deep Residual Learning for Image Recognition", 2015, scaled down to
scikit-learn's 8x8 images. Trains in every kind of replication. Each replica normalizes its own
batch; with `--sync --config moving_statistics=sync`, replicas share their moments.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import psclust
from psclust.examples.data import digits
from psclust.examples.layers import conv, dense

_CLASSES = 10


def input_fn(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Batches of (images [batch, 8, 8, 1] float32 in 0..1, labels [batch] int64)."""
    training = mode == psclust.ModeKeys.TRAIN
    images, labels = digits(held_out=not training)
    dataset = tf.data.Dataset.from_tensor_slices((images[..., None], labels))
    if training:
        dataset = (
            dataset.shard(shard.count, shard.index)
            .shuffle(len(labels), seed=1)
            .repeat(params["epochs"])
        )
    return (
        dataset.batch(params["batch_size"])
        .map(lambda images, labels: (tf.cast(images, tf.float32) / 16.0, labels))
        .prefetch(2)
    )


def model_fn(
    features: tf.Tensor, labels: tf.Tensor, mode: str, params: dict[str, Any]
) -> psclust.EstimatorSpec:
    """Three groups of blocks on 8x8, 4x4 and 2x2 pixels; each group has twice the filters of the
    previous one."""
    training = mode == psclust.ModeKeys.TRAIN
    x = tf.nn.relu(_normalized(conv(features, params["filters"], "conv"), training, "norm"))
    for group in range(3):
        for block in range(params["blocks"]):
            strides = 2 if group and not block else 1
            x = _block(
                x, params["filters"] * 2**group, strides, training, f"group{group}_block{block}"
            )
    logits = dense(tf.reduce_mean(x, [1, 2]), _CLASSES, "softmax")
    classes = tf.argmax(logits, 1)
    if mode == psclust.ModeKeys.PREDICT:
        return psclust.EstimatorSpec(mode, predictions={"class": classes})
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    metrics = {"accuracy": tf.compat.v1.metrics.accuracy(labels, classes)}
    return psclust.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)


def _block(x: tf.Tensor, filters: int, strides: int, training: bool, name: str) -> tf.Tensor:
    """`x` plus two convolutions of it; if they change the shape, a third convolution adapts `x`."""
    with tf.compat.v1.variable_scope(name):
        change = tf.nn.relu(
            _normalized(conv(x, filters, "conv1", strides=strides), training, "norm1")
        )
        change = _normalized(conv(change, filters, "conv2"), training, "norm2")
        same = x.shape[-1] == filters and strides == 1
        return tf.nn.relu(
            change + (x if same else conv(x, filters, "adapt", size=1, strides=strides))
        )


def _normalized(x: tf.Tensor, training: bool, name: str) -> tf.Tensor:
    # Suits a few hundred steps; the usual 0.99 needs thousands.
    return psclust.batch_normalization(x, training, momentum=0.9, name=name)


def optimizer_fn(params: dict[str, Any], global_step: Any) -> tf.compat.v1.train.Optimizer:
    rate = psclust.schedules.exponential(
        params["learning_rate"], global_step, params["decay_steps"], 0.3, staircase=True
    )
    return tf.compat.v1.train.MomentumOptimizer(rate, 0.9)


program = psclust.Program(
    model_fn,
    input_fn,
    optimizer_fn,
    params={
        "batch_size": 32,
        "epochs": 5,
        "learning_rate": 0.1,
        "decay_steps": 100,
        "filters": 16,
        "blocks": 1,
    },
    seed=7,
    # Kernels decay, biases do not. Evaluation uses the averages.
    config=psclust.TrainConfig(weight_decay=1e-4, average_decay=0.98),
)
