"""A program with one mistake at a time, by its params."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import toys

import psclust

_NEVER = -1
PARAMS = {
    "rate": 0.01,
    "batches": 40,
    "long_at": _NEVER,
    "nan_at": _NEVER,
    "columns": 0,
    "vector_loss": False,
    "extra": False,
}


def _input(params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Batches of two numbers and their labels. Of the last replica, the labels of one batch are too
    long, or not numbers."""
    last = shard.index == shard.count - 1

    def batch(index: Any) -> Any:
        long = tf.equal(index, params["long_at"] if last else _NEVER)
        label = tf.where(tf.equal(index, params["nan_at"] if last else _NEVER), float("nan"), 1.0)
        labels = tf.fill([tf.where(long, 3, 2)], label)
        return tf.ones([2]), tf.tile(labels[:, None], [1, params["columns"]]) if params[
            "columns"
        ] else labels

    if params["extra"] and last:
        tf.compat.v1.get_default_graph().add_to_collection("bad_inputs/last", True)
    return tf.data.Dataset.range(shard.index, params["batches"], shard.count).map(
        lambda index: batch(index // shard.count)
    )


def _model(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> psclust.EstimatorSpec:
    weight = toys.zeros("weight", [])
    if tf.compat.v1.get_collection("bad_inputs/last"):
        tf.compat.v1.get_variable("extra", [3], initializer=tf.compat.v1.zeros_initializer())
    if params["columns"]:
        logits = tf.stack([features * weight, features], 1)
        return psclust.EstimatorSpec(
            mode,
            loss=tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)),
        )
    errors = (features * weight - labels) ** 2
    return psclust.EstimatorSpec(
        mode, loss=tf.ensure_shape(errors, [2]) if params["vector_loss"] else tf.reduce_mean(errors)
    )


program = psclust.Program(
    _model, _input, toys._sgd, params=PARAMS, config=psclust.TrainConfig(save_steps=5)
)
