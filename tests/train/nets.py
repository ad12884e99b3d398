"""A small net with everything that could break the equivalence of replications: batch
normalisation, a sparse table, regularization."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import toys

import psclust

NET = {**toys.LINE, "rate": 0.01, "optimizer": "MomentumOptimizer", "normalize": True, "l2": 0.0}


def _net(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> psclust.EstimatorSpec:
    x = features["x"] * 3.0 + 20.0 if params["normalize"] else features["x"]
    for name in ("first", "second"):
        with tf.compat.v1.variable_scope(name):
            penalty = tf.keras.regularizers.L2(params["l2"]) if params["l2"] else None
            start = tf.compat.v1.random_normal_initializer(seed=len(name))
            x = tf.matmul(
                x,
                tf.compat.v1.get_variable(
                    "weights", [int(x.shape[-1]), 6], initializer=start, regularizer=penalty
                ),
            )
            if params["normalize"]:
                x = psclust.batch_normalization(x, mode == psclust.ModeKeys.TRAIN, momentum=0.9)
            x = tf.nn.tanh(x)
    words = toys.ones("words", [5, 1])
    output = tf.compat.v1.get_variable(
        "output", [6, 1], initializer=tf.compat.v1.constant_initializer(0.3)
    )
    guess = (tf.matmul(x, output) + tf.nn.embedding_lookup(words, features["word"]))[:, 0]
    tf.compat.v1.losses.mean_squared_error(labels, guess)
    return psclust.EstimatorSpec(mode, predictions=guess, loss=tf.compat.v1.losses.get_total_loss())


def net(config: psclust.TrainConfig | None = None, **params: Any) -> psclust.Program:
    return psclust.Program(
        _net,
        toys._line_input,
        toys._line_optimizer,
        params={**NET, **params},
        config=config or psclust.TrainConfig(),
        seed=1,
    )


# Long enough that somebody can be killed in the middle of it.
shared = net(psclust.TrainConfig(moving_statistics="sync"), points=1800, rate=0.002)


def _watched(features: Any, labels: Any, mode: str) -> psclust.EstimatorSpec:
    """Summarizes the words it sees, and has a NaN in its gradient, but not in its loss, for label
    7."""
    weight, other = toys.ones("weight", []), toys.ones("other", [])
    x = tf.cast(features, tf.float32)
    tf.compat.v1.summary.scalar("seen", tf.reduce_mean(x))
    tf.compat.v1.summary.image("picture", tf.reshape(x[:1], [1, 1, 1, 1]))
    # The root of zero is zero, its derivative is not.
    broken = tf.sqrt(other * tf.reduce_mean(tf.where(tf.equal(labels, 7), 0.0, 1.0)))
    return psclust.EstimatorSpec(
        mode, loss=tf.reduce_mean((weight * x - 1.0) ** 2) + 1e-30 * broken
    )


def _watched_input(shard: psclust.Shard, params: dict[str, Any]) -> tf.data.Dataset:
    labels = tf.where(tf.equal(tf.range(1, params["batches"] + 1), params["broken_at"]), 7, 1)
    values = tf.constant([float(shard.index)] * params["batches"])
    return tf.data.Dataset.from_tensor_slices((values, labels)).batch(1)


WATCHED = {"rate": 0.0, "batches": 20, "broken_at": 0}


def watched(config: psclust.TrainConfig, **params: Any) -> psclust.Program:
    """Batches of one number each, that of the replica; the gradient of `other` is not finite at
    batch `broken_at`."""
    return psclust.Program(
        _watched,
        _watched_input,
        toys._sgd,
        params={**WATCHED, **params},
        config=config,
    )
