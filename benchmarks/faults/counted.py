"""What the runs train: a classifier that is learned at once, and a variable that counts how often
each example was used. Synchronously, an example adds its share of the global batch to its element;
asynchronously its share of the worker's."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import psclust

EXAMPLES, BATCH, CLASSES, WIDTH, HIDDEN = 64, 8, 10, 128, 1024
PART = 20
"""Batches of each part of the data, where they are handed out."""


def _points(count: int, seed: int) -> tuple[Any, Any]:
    labels = tf.range(count) % CLASSES
    centers = tf.random.stateless_normal([CLASSES, WIDTH], [1, 2])
    noise = tf.random.stateless_normal([count, WIDTH], [seed, 3])
    return tf.gather(centers, labels) + 0.3 * noise, labels


def _input(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    x, labels = _points(EXAMPLES, 4 if mode == psclust.ModeKeys.TRAIN else 5)
    numbers = tf.range(EXAMPLES)
    data = tf.data.Dataset.from_tensor_slices(({"x": x, "number": numbers}, labels))
    if mode != psclust.ModeKeys.TRAIN:
        return data.batch(EXAMPLES)
    return data.shard(shard.count, shard.index).repeat().batch(BATCH).take(params["batches"])


def _model(features: Any, labels: Any, mode: str) -> psclust.EstimatorSpec:
    def get(name: str, shape: list[int], deviation: float) -> Any:
        start = tf.compat.v1.random_normal_initializer(0.0, deviation, seed=1)
        return tf.compat.v1.get_variable(name, shape, initializer=start)

    hidden = tf.nn.relu(features["x"] @ get("first", [WIDTH, HIDDEN], 0.05))
    logits = hidden @ get("second", [HIDDEN, CLASSES], 0.03)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    counts = tf.compat.v1.get_variable(
        "counts", [EXAMPLES], initializer=tf.compat.v1.zeros_initializer()
    )
    used = tf.linalg.matvec(tf.one_hot(features["number"], EXAMPLES), counts)
    right = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, 1))
    # With a rate of 1, the second part adds to `counts`; its value is made zero.
    counted = tf.stop_gradient(tf.reduce_mean(used)) - tf.reduce_mean(used)
    return psclust.EstimatorSpec(
        mode, loss=0.02 * loss + counted, eval_metric_ops={"accuracy": right}
    )


def _parts(params: dict[str, Any]) -> list[tuple[int, int]]:
    """As many batches as two workers have."""
    return psclust.ranges(2 * params["batches"] * BATCH, PART * BATCH)


def _input_of(part: Any, mode: str, params: dict[str, Any]) -> tf.data.Dataset:
    if mode != psclust.ModeKeys.TRAIN:
        return _input(mode, params, psclust.Shard())
    x, labels = _points(EXAMPLES, 4)
    numbers = tf.data.Dataset.range(part[0], part[1]).map(lambda number: number % EXAMPLES)
    return numbers.map(
        lambda number: ({"x": x[number], "number": tf.cast(number, tf.int32)}, labels[number])
    ).batch(BATCH)


def _optimizer() -> Any:
    return tf.compat.v1.train.GradientDescentOptimizer(1.0)


_SETTINGS: dict[str, Any] = {
    "params": {"batches": 600},
    "config": psclust.TrainConfig(save_seconds=None, save_steps=50),
}
program = psclust.Program(_model, _input, _optimizer, **_SETTINGS)
handed = psclust.Program(_model, _input_of, _optimizer, data_parts=_parts, **_SETTINGS)
