"""A net of several layers of 1 MB each, large enough for its steps to be streamed; a module by
itself, because the process that trains it imports it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import toys

import psclust
from psclust.replication.sync.accumulators import accumulator_for, push
from psclust.testing.wait import wait_until

BATCH, LAYERS = 12, 4
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda: tf.compat.v1.train.GradientDescentOptimizer(0.01),
    "momentum": lambda: tf.compat.v1.train.MomentumOptimizer(0.003, 0.9),
    # With its own epsilon, 1e-8, it moves a weight whose gradient is next to nothing by what
    # rounding has left of that, which depends on the CPU: two of 250,000 weights by 1.5e-5 on one
    # with AVX2 alone.
    "adam": lambda: tf.compat.v1.train.AdamOptimizer(0.001, epsilon=1e-5),
}


_SECOND = "wide/second replica"
_LAST = f"layer{LAYERS - 1}"


def _last() -> Any:
    """The variable of the last layer."""
    variables = tf.compat.v1.trainable_variables()
    return next(variable for variable in variables if variable.op.name == _LAST)


def _input(shard: psclust.Shard, params: dict[str, Any]) -> tf.data.Dataset:
    x = tf.random.stateless_normal([BATCH * params["steps"], 100], [1, 2])
    y = tf.sin(x[:, :1])
    if shard.index == 1:
        tf.compat.v1.add_to_collection(_SECOND, _SECOND)
    fewer = params["fewer"] if shard.index == params["quitter"] else 0
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(shard.count, shard.index)
    return dataset.batch(BATCH // shard.count).take(params["steps"] - fewer)


def _mortal(x: Any, params: dict[str, Any]) -> Any:
    """`x`; in backpropagation, the task `mortal` kills itself once, at its batch number `dies_at`:
    when the last layer has been updated, whose gradient it has pushed, and none of the gradients of
    the layers before has left."""
    seen = [0]

    def perhaps_die(slope: Any, last: Any) -> Any:
        seen[0] += 1
        mark = Path(params["mark"])
        if (
            os.environ.get("PSCLUST_TASK") == params["mortal"]
            and seen[0] == params["dies_at"]
            and not mark.exists()
        ):
            mark.touch()
            _await_another(_LAST, last)
            os.kill(os.getpid(), signal.SIGKILL)
        return np.float32(slope)

    def gradient(slope: Any) -> Any:
        died = tf.compat.v1.py_func(perhaps_die, [slope, _last()], tf.float32)
        return tf.ensure_shape(died, x.shape)

    @tf.custom_gradient
    def identity(x: Any) -> Any:
        return tf.identity(x), gradient

    return identity(x)


def _await_another(name: str, known: Any) -> None:
    """Waits until a variable on the first ps has another value than `known`."""
    target = f"grpc://{json.loads(os.environ['PSCLUST_CLUSTER'])['ps'][0]}"
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=known.shape, shared_name=name)
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        with tf.compat.v1.Session(target) as session:
            wait_until(lambda: (session.run(value) != known).any(), what=f"an update of {name}")


class CopiesAreAsSent(tf.compat.v1.train.SessionRunHook):
    """Fails if a step would compute from a copy that is not what its ps takes it to be."""

    def begin(self) -> None:
        names = [f"layer{layer}" for layer in range(1, LAYERS)]
        self.pairs = [[_read(f"{name}/{one}") for one in ("copy", "sent")] for name in names]

    def before_run(self, run_context: Any) -> None:
        for copy, sent in run_context.session.run(self.pairs):
            np.testing.assert_array_equal(copy, sent)


class Ghost(tf.compat.v1.train.SessionRunHook):
    """Pushes, after `step` steps, a gradient of an older round for the second worker, as a process
    of it that was thought dead may."""

    def __init__(self, step: int) -> None:
        self.steps_left = step

    def begin(self) -> None:
        ones = tf.ones(_last().shape)
        self.push = push(accumulator_for(ones, _last()), ones, tf.constant(7, tf.int64))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.steps_left -= 1
        if not self.steps_left:
            run_context.session.run(self.push)


def _read(name: str) -> Any:
    """The value of the resource variable of this name, also of one that is in no collection."""
    handle = tf.compat.v1.get_default_graph().get_tensor_by_name(f"{name}:0")
    with tf.device(handle.device):
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)


def _model(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> psclust.EstimatorSpec:
    x = features
    for layer in range(LAYERS):
        if layer == LAYERS // 2 and params["mortal"]:
            x = _mortal(x, params)
        start = tf.compat.v1.glorot_uniform_initializer(seed=layer)
        shape = [x.shape[-1], params["width"]]
        x = tf.matmul(x, tf.compat.v1.get_variable(f"layer{layer}", shape, initializer=start))
        bias = toys.zeros(f"bias{layer}", shape[1:])
        unused = params["lazy"] and layer == 0 and tf.compat.v1.get_collection(_SECOND)
        x = tf.nn.tanh(x if unused else x + bias)
    hooks: list[Any] = []
    if params["stop_at"]:
        hooks.append(tf.compat.v1.train.StopAtStepHook(last_step=params["stop_at"]))
    if params["as_sent"]:
        hooks.append(CopiesAreAsSent())
    if params["haunted_at"] and tf.compat.v1.get_collection(_SECOND):
        hooks.append(Ghost(params["haunted_at"]))
    loss = tf.reduce_mean((x[:, :1] - labels) ** 2)
    return psclust.EstimatorSpec(mode, loss=loss, training_hooks=hooks)


PARAMS = {"steps": 20, "fewer": 0, "quitter": 1, "width": 500, "lazy": False}
PARAMS |= {"mortal": "", "dies_at": 5, "mark": "", "stop_at": 0, "as_sent": False, "haunted_at": 0}


def program(optimizer: str = "momentum", **config: Any) -> psclust.Program:
    """The replica `quitter` has `fewer` batches than the others, and the second, if it is `lazy`, a
    loss that does not depend on the first bias; a hook in every worker asks all to stop at the step
    `stop_at`, one of a program that is `as_sent` fails where a copy is not, and after the step
    `haunted_at` there is a gradient of an older round."""
    settings = psclust.TrainConfig(**config)
    return psclust.Program(
        _model, _input, OPTIMIZERS[optimizer], params=PARAMS, config=settings, seed=1
    )


def small(**config: Any) -> psclust.Program:
    """As many layers, too small to be streamed, and too large to travel in a bucket."""
    return program("adam", **config).with_params({"width": 100})


trained = program()
averaged = program("adam", average_decay=0.9, weight_decay=0.001)
rounded = program(wire_dtype="int8").with_params({"as_sent": True})
