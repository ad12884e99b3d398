"""int8 on the wire: every way to train learns with it what it learns without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import psclust
from psclust.errors import NotFiniteError, UsageError
from psclust.replication.build_between_graph import build_between_graph
from psclust.replication.device_layout import DeviceLayout

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("replication", "sync", "workers"),
    [
        ("in-graph", True, 2),
        ("between-graph", True, 2),
        # One worker alone makes the updates of one process, in their order.
        ("between-graph", False, 1),
        pytest.param("in-graph", False, 1, marks=pytest.mark.long),
    ],
)
def test_the_weights_have_the_error_of_rounding_and_are_kept_without(
    train_here: Callable[..., Any], replication: str, sync: bool, workers: int
) -> None:
    import deep

    trained = train_here(deep.program(wire_dtype="int8"), replication, sync=sync, workers=workers)
    alone, first = (
        train_here(deep.program()),
        train_here(deep.program(), folder="first", max_steps=1),
    )
    # Measured: 0.012 to 0.036. Adam moves a weight whose gradients are near zero by the sign of
    # what rounding has left of them.
    for name in (f"layer{layer}" for layer in range(deep.LAYERS)):
        error = (
            np.abs(trained.values[name] - alone.values[name]).mean()
            / np.abs(alone.values[name] - first.values[name]).mean()
        )
        assert error < 0.06
    # Variables and checkpoints keep all their digits.
    layer = trained.values["layer0"]
    assert (layer != layer.astype(tf.bfloat16.as_numpy_dtype).astype("float32")).mean() > 0.9


class LocalValues(tf.compat.v1.train.SessionRunHook):
    """Reads the local variables whenever a step has been made."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def begin(self) -> None:
        self.variables = {
            variable.op.name: variable
            for variable in tf.compat.v1.local_variables()
            if "weights/" in variable.op.name
        }

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.values = run_context.session.run(self.variables)


@pytest.mark.parametrize(
    ("replication", "sync", "workers"),
    [
        ("in-graph", True, 2),
        ("between-graph", False, 1),
        pytest.param("in-graph", False, 2, marks=pytest.mark.long),
    ],
)
def test_a_copy_is_what_its_ps_has_sent_and_as_good_as_the_variable(
    train_here: Callable[..., Any], replication: str, sync: bool, workers: int
) -> None:
    local = LocalValues()

    def model(features: Any) -> psclust.EstimatorSpec:
        weights = tf.compat.v1.get_variable(
            "weights", [200, 101], initializer=tf.compat.v1.glorot_uniform_initializer(seed=1)
        )
        loss = tf.reduce_mean(tf.tanh(tf.matmul(features, weights)) ** 2)
        return psclust.EstimatorSpec("train", loss=loss, training_hooks=[local])

    def data() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.random.stateless_normal([8, 200], [1, 2])).repeat(30)

    optimizer = lambda: tf.compat.v1.train.MomentumOptimizer(0.5, 0.9)  # noqa: E731
    program = psclust.Program(model, data, optimizer, config=psclust.TrainConfig(wire_dtype="int8"))
    trained = train_here(program, replication, sync=sync, here=True, workers=workers)
    copies = {name: value for name, value in local.values.items() if "/copy" in name}
    sent = {name: value for name, value in local.values.items() if "/sent" in name}
    assert len(copies) == workers
    # Towers that step together get the same differences.
    assert len(sent) == (1 if sync else workers)
    last = trained.values["weights"]
    for copy in copies.values():
        assert any(np.array_equal(copy, value) for value in sent.values())
        if sync or workers == 1:
            assert 0 < np.abs(copy - last).max() < 1e-3 * np.abs(last).max()


def test_a_gradient_that_is_not_finite_ends_the_training(train_here: Callable[..., Any]) -> None:
    def model(features: Any) -> psclust.EstimatorSpec:
        weights = tf.compat.v1.get_variable(
            "weights", [100, 100], initializer=tf.compat.v1.ones_initializer()
        )
        # Its own value is finite, its gradient is not.
        return psclust.EstimatorSpec(
            "train", loss=tf.reduce_mean(features) + tf.reduce_sum(tf.sqrt(weights - 1))
        )

    def data() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.ones([4])).repeat(5)

    optimizer = lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1)  # noqa: E731
    program = psclust.Program(
        model, data, optimizer, config=psclust.TrainConfig(wire_dtype="int8", nan_guard="gradients")
    )
    with pytest.raises(NotFiniteError, match="weights"):
        train_here(program, "in-graph", sync=True, workers=2, here=True)


def test_a_ready_train_op_gives_no_gradient_to_round() -> None:
    def model(features: Any) -> psclust.EstimatorSpec:
        loss = tf.reduce_sum(tf.compat.v1.get_variable("weights", [100, 100]))
        return psclust.EstimatorSpec(
            "train",
            loss=loss,
            train_op=tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss),
        )

    workers = ("/job:worker/task:0",)
    program = psclust.Program(
        model, lambda: tf.data.Dataset.range(4), config=psclust.TrainConfig(wire_dtype="int8")
    )
    with (
        tf.Graph().as_default(),
        pytest.raises(UsageError, match="wire_dtype int8, and model_fn returns a ready train_op"),
    ):
        build_between_graph(
            program, DeviceLayout(1, workers, workers[0]), 0, sync=False, chief=True
        )
