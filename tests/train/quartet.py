"""A net whose first layer has four parts, each trained by an optimizer of its own, with everything
that could break the equivalence of replications: dense and sparse gradients, rows that occur twice
in a batch, batch normalization, and an uneven last batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import psclust

OPTIMIZERS = {
    "sgd": lambda: tf.compat.v1.train.GradientDescentOptimizer(0.02),
    "momentum": lambda: tf.compat.v1.train.MomentumOptimizer(0.01, 0.9),
    "adam": lambda: tf.compat.v1.train.AdamOptimizer(0.01),
    "adagrad": lambda: tf.compat.v1.train.AdagradOptimizer(0.05),
}
BATCH, STEPS, LAST = 12, 50, 5
WORDS = 40


class ByScope(tf.compat.v1.train.Optimizer):
    """Hands every variable to the optimizer that its scope is named after."""

    def __init__(self) -> None:
        super().__init__(False, "ByScope")
        self._optimizers = {name: make() for name, make in OPTIMIZERS.items()}

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        updates = []
        for scope, optimizer in self._optimizers.items():
            updates.append(
                optimizer.apply_gradients(
                    [pair for pair in grads_and_vars if pair[1].op.name.startswith(f"{scope}/")]
                )
            )
        return tf.group(*updates)


def _input(shard: psclust.Shard) -> tf.data.Dataset:
    points = BATCH * (STEPS - 1) + LAST
    x = tf.random.stateless_normal([points, 3], [1, 2])
    word = tf.random.stateless_uniform([points, 2], [3, 4], 0, WORDS, tf.int64)
    y = tf.sin(x[:, 0]) + 0.5 * x[:, 1] + tf.cast(word[:, 0] % 3, tf.float32)
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x, "word": word}, y))
    return dataset.shard(shard.count, shard.index).batch(BATCH // shard.count)


def _part(features: Any) -> Any:
    table = tf.compat.v1.get_variable(
        "table", [WORDS, 4], initializer=tf.compat.v1.random_normal_initializer(0, 0.1, seed=1)
    )
    weights = tf.compat.v1.get_variable(
        "weights", [11, 6], initializer=tf.compat.v1.random_normal_initializer(0, 0.3, seed=2)
    )
    words = tf.reshape(tf.nn.embedding_lookup(table, features["word"]), [-1, 8])
    return tf.matmul(tf.concat([features["x"] * 3.0 + 2.0, words], 1), weights)


def _model(features: Any, labels: Any, mode: str) -> psclust.EstimatorSpec:
    parts = []
    for name in OPTIMIZERS:
        with tf.compat.v1.variable_scope(name):
            parts.append(_part(features))
    with tf.compat.v1.variable_scope("momentum"):
        output = tf.compat.v1.get_variable(
            "output", [24, 1], initializer=tf.compat.v1.random_normal_initializer(0, 0.3, seed=3)
        )
    with tf.compat.v1.variable_scope("adam"):
        x = tf.concat(parts, 1)
        x = tf.nn.tanh(
            psclust.batch_normalization(
                x, mode == psclust.ModeKeys.TRAIN, momentum=0.9, name="norm"
            )
        )
    with tf.compat.v1.variable_scope("adagrad"):
        bias = tf.compat.v1.get_variable("bias", [1], initializer=tf.compat.v1.zeros_initializer())
    return psclust.EstimatorSpec(
        mode, loss=tf.reduce_mean(((tf.matmul(x, output) + bias)[:, 0] - labels) ** 2)
    )


program = psclust.Program(
    _model,
    _input,
    ByScope,
    config=psclust.TrainConfig(
        moving_statistics="sync", weight_decay=0.01, clip_norm=2.0, nan_guard="gradients"
    ),
)
