"""Programs small enough to know by heart what training them must give."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import psclust


def zeros(name: str, shape: Sequence[int]) -> Any:
    return tf.compat.v1.get_variable(name, shape, initializer=tf.compat.v1.zeros_initializer())


def ones(name: str, shape: Sequence[int]) -> Any:
    return tf.compat.v1.get_variable(name, shape, initializer=tf.compat.v1.ones_initializer())


def repeated(
    loss: Callable[[Any], Any],
    batch: Any,
    times: int = 20,
    *,
    optimizer: Callable[[], Any] = lambda: tf.compat.v1.train.GradientDescentOptimizer(0.01),
    hooks: Sequence[Any] = (),
    **config: Any,
) -> psclust.Program:
    """Trains `loss` of features on one batch of them, again and again."""

    def model(features: Any) -> psclust.EstimatorSpec:
        return psclust.EstimatorSpec("train", loss=loss(features), training_hooks=hooks)

    return psclust.Program(
        model,
        lambda: tf.data.Dataset.from_tensors(batch).repeat(times),
        optimizer,
        config=psclust.TrainConfig(**config),
    )


def _sgd(params: dict[str, Any]) -> tf.compat.v1.train.Optimizer:
    return tf.compat.v1.train.GradientDescentOptimizer(params["rate"])


def _tally_input(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Batches that say whose they are. The last replica has `fewer` batches less than the
    others."""
    batches = params["batches"] - (params["fewer"] if shard.index == shard.count - 1 else 0)
    return tf.data.Dataset.from_tensors(tf.constant([shard.index, shard.index])).repeat(batches)


def _tally(features: Any, mode: str, params: dict[str, Any]) -> psclust.EstimatorSpec:
    """The gradient of either variable is -1 at the index of the replica: with a rate of 1, every
    gradient of replica i that a step averages over n adds 1 / n to element i."""
    dense, sparse = zeros("dense", [4]), zeros("sparse", [4, 1])
    loss = -tf.reduce_mean(tf.linalg.matvec(tf.one_hot(features, 4), dense)) - tf.reduce_mean(
        tf.nn.embedding_lookup(sparse, features)
    )
    return psclust.EstimatorSpec(mode, loss=loss)


TALLY = {"batches": 100, "fewer": 0, "rate": 1.0}
tally = psclust.Program(_tally, _tally_input, _sgd, params=TALLY)


def _held_input(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """As the tally's. After as many batches as the last replica has, the first one waits until
    there is a file `until`."""

    def wait(number: Any, batch: Any) -> Any:
        while number >= params["batches"] - params["fewer"] and not Path(params["until"]).exists():
            time.sleep(0.01)
        return batch

    def waited(number: Any, batch: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(wait, [number, batch], batch.dtype), batch.shape)

    dataset = _tally_input(mode, params, shard)
    return dataset if shard.index else dataset.enumerate().map(waited)


held = psclust.Program(_tally, _held_input, _sgd, params=TALLY | {"until": ""})


def _line_input(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Points of a line in two dimensions with a word each; replica i of n reads every n-th, in
    batches such that the batches of all replicas together are the batches that one replica alone
    would read."""
    points = params["points"]
    x = tf.random.stateless_normal([points, 2], [1, 2])
    y = tf.linalg.matvec(x, [2.0, -3.0]) + 0.5
    word = tf.random.stateless_uniform([points], [3, 4], 0, 5, tf.int64)
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x, "word": word}, y))
    return dataset.shard(shard.count, shard.index).batch(params["batch"] // shard.count)


def _line(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> psclust.EstimatorSpec:
    weights, words, bias = zeros("weights", [2]), ones("words", [5, 1]), zeros("bias", [])
    guess = (
        tf.linalg.matvec(features["x"], weights)
        + bias
        + tf.nn.embedding_lookup(words, features["word"])[:, 0]
    )
    error = guess - labels
    metrics = {"error": tf.compat.v1.metrics.mean_absolute_error(labels, guess)}
    return psclust.EstimatorSpec(
        mode, predictions=guess, loss=tf.reduce_mean(error**2), eval_metric_ops=metrics
    )


def _line_optimizer(params: dict[str, Any]) -> tf.compat.v1.train.Optimizer:
    kind = getattr(tf.compat.v1.train, params["optimizer"])
    more = [0.9] if kind is tf.compat.v1.train.MomentumOptimizer else []
    return kind(params["rate"], *more)


def _conditional(
    features: Any, labels: Any, mode: str, params: dict[str, Any]
) -> psclust.EstimatorSpec:
    """`_line` with a condition whose branches are on the device of a variable."""
    spec = _line(features, labels, mode, params)
    words = next(
        variable for variable in tf.compat.v1.global_variables() if variable.op.name == "words"
    )
    with tf.device(words.device):
        decay = tf.cond(
            tf.reduce_sum(labels) > 1.0,
            lambda: tf.nn.l2_loss(words),
            lambda: 2.0 * tf.nn.l2_loss(words),
        )
    return psclust.EstimatorSpec(mode, loss=spec.loss + 0.01 * decay)


LINE = {"points": 100, "batch": 12, "rate": 0.05, "optimizer": "GradientDescentOptimizer"}
line = psclust.Program(_line, _line_input, _line_optimizer, params=LINE)
conditional = psclust.Program(_conditional, _line_input, _line_optimizer, params=LINE)


def _broken_model(features: Any) -> psclust.EstimatorSpec:
    raise ZeroDivisionError(features)


def _compares(features: Any) -> psclust.EstimatorSpec:
    weight = tf.compat.v1.get_variable("weight", [])
    return psclust.EstimatorSpec("train", loss=weight * float(features["x"] == 1.0))


compares = psclust.Program(_compares, _line_input, _sgd, params=LINE)
broken = psclust.Program(_broken_model, _line_input, _sgd, params=LINE)
no_loss = psclust.Program(
    lambda features, mode: psclust.EstimatorSpec(mode), _line_input, _sgd, params=LINE
)


def _after_a_while() -> np.int64:
    time.sleep(0.1)
    return np.int64(0)


def _slowly(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    dataset = _line_input(mode, params, shard)
    if mode != psclust.ModeKeys.TRAIN:
        return dataset
    # A batch takes a tenth of a second: the time that a training would take that has more to do.
    wait = tf.data.Dataset.range(1 << 30).map(
        lambda _: tf.compat.v1.py_func(_after_a_while, [], tf.int64)
    )
    return tf.data.Dataset.zip((dataset, wait)).map(lambda batch, _: batch)


slow_line = psclust.Program(_line, _slowly, _line_optimizer, params=LINE)


def _shuffled(
    features: Any, labels: Any, mode: str, params: dict[str, Any]
) -> psclust.EstimatorSpec:
    """`_line`, but the replica that calls it last creates its variables in another order, as a
    model that walks through a set might."""
    with tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE
    ):
        if _LAST in tf.compat.v1.get_default_graph().get_collection(_LAST):
            ones("words", [5, 1])
            zeros("bias", [])
            zeros("weights", [2])
            if params["extra"]:
                zeros("extra", [3])
        return _line(features, labels, mode, params)


_LAST = "toys/last replica"


def _shuffled_input(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    if shard.count > 1 and shard.index == shard.count - 1:
        tf.compat.v1.get_default_graph().add_to_collection(_LAST, _LAST)
    return _line_input(mode, params, shard)


shuffled = psclust.Program(
    _shuffled, _shuffled_input, _line_optimizer, params=LINE | {"extra": False}
)


class _Counts(tf.compat.v1.train.SessionRunHook):
    """Has a variable that no device scope surrounds."""

    def begin(self) -> None:
        zeros("only_here", [])


def _unshared(
    features: Any, labels: Any, mode: str, params: dict[str, Any]
) -> psclust.EstimatorSpec:
    """`_line` with a variable on a device of its own, a metric, which belongs on the worker, and a
    hook with a variable."""
    with tf.device(params["device"]):
        table = zeros("table", [2])
    line = _line(features, labels, mode, params)
    tf.compat.v1.metrics.mean(line.loss)
    return psclust.EstimatorSpec(
        mode, loss=line.loss + tf.reduce_sum(table**2), training_hooks=[_Counts()]
    )


unshared = psclust.Program(
    _unshared,
    _line_input,
    _line_optimizer,
    params=LINE | {"optimizer": "MomentumOptimizer", "device": None},
)


def _levels_input(shard: psclust.Shard, params: dict[str, Any]) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(tf.fill([4, 1], 10.0 * (shard.index + 1))).repeat(
        params["batches"]
    )


def _levels(features: Any, mode: str) -> psclust.EstimatorSpec:
    x = psclust.batch_normalization(
        features, mode == psclust.ModeKeys.TRAIN, momentum=0.5, name="norm"
    )
    return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(x))


def levels(config: psclust.TrainConfig, batches: int = 10) -> psclust.Program:
    """Replica i sees so many batches of the constant 10 * (i + 1), normalized."""
    return psclust.Program(
        _levels, _levels_input, _sgd, params={"rate": 0.1, "batches": batches}, config=config
    )


def _falling(global_step: Any) -> tf.compat.v1.train.Optimizer:
    return tf.compat.v1.train.GradientDescentOptimizer(
        psclust.schedules.piecewise(global_step, [9], [1.0, 0.1])
    )


falling = psclust.Program(_tally, _tally_input, _falling, params=TALLY)
