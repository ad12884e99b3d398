"""A model with variables of all the kinds that `max_shard_bytes: auto` cuts: rows of a dense layer,
channels of a convolution, a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

import psclust


def _input(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    draw = np.random.default_rng(0)
    images = draw.random((24, 4, 4, 64), np.float32)
    words = draw.integers(0, 30_000, (24, 3))
    labels = draw.random((24, 4), np.float32)
    data = tf.data.Dataset.from_tensor_slices(({"image": images, "words": words}, labels))
    return data.shard(shard.count, shard.index).batch(12 // shard.count).repeat(params["epochs"])


def _model(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> psclust.EstimatorSpec:
    v1 = tf.compat.v1

    def make(name: str, shape: list[int]) -> Any:
        initializer = v1.random_uniform_initializer(-0.1, 0.1, seed=1)
        return v1.get_variable(name, shape, initializer=initializer)

    kernel = make("kernel", [3, 3, 64, 500])
    if params["asks"] and getattr(kernel, params["asks"]) is None:
        raise AssertionError
    x = tf.nn.conv2d(features["image"], kernel, 1, "SAME") + make("bias", [500])
    x = tf.matmul(tf.reduce_mean(tf.nn.relu(x), [1, 2]), make("dense", [500, 600]))
    x = tf.concat(
        [x, tf.reduce_mean(tf.gather(make("table", [30_000, 10]), features["words"]), 1)], 1
    )
    x = tf.matmul(tf.nn.tanh(x), make("out", [610, 4])) + make("offset", [4])
    loss = tf.reduce_mean((x - labels) ** 2)
    train_op = None
    if params["train_op"]:
        train_op = v1.train.AdamOptimizer(0.01).minimize(loss, v1.train.get_global_step())
    return psclust.EstimatorSpec(mode, loss=loss, train_op=train_op)


class OfAnother(tf.compat.v1.train.AdamOptimizer):
    """A subclass, which might do anything."""


program = psclust.Program(
    _model,
    _input,
    lambda: tf.compat.v1.train.MomentumOptimizer(0.5, 0.9),
    params={"asks": "", "train_op": False, "epochs": 1},
)


def _count(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> psclust.EstimatorSpec:
    get, zeros = tf.compat.v1.get_variable, tf.zeros_initializer()
    rows = tf.gather(get("table", [30_000, 10], initializer=zeros), features["words"])
    loss = tf.reduce_sum(get("dense", [500, 600], initializer=zeros)) + tf.reduce_mean(rows)
    return psclust.EstimatorSpec(mode, loss=-loss)


# Its variables count the updates, so one too many or too few shows.
counting = replace(
    program, model_fn=_count, optimizer_fn=lambda: tf.compat.v1.train.GradientDescentOptimizer(1.0)
)
