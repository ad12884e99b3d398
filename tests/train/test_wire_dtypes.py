"""Narrow dtypes on the wire: every way to train learns with them what it learns without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import toys
import wide
from ways import Train

import psclust
from beds.graphs import build
from beds.tiers import longer
from psclust.errors import NotFiniteError, UsageError

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("wire_dtype", "replication", "sync", "workers"),
    [
        ("int8", "between-graph", True, 2),
        ("bfloat16", "in-graph", True, 2),
        *longer(
            ("int8", "in-graph", True, 2),
            # One worker alone makes the updates of one process, in their order.
            ("int8", "between-graph", False, 1),
            ("int8", "in-graph", False, 1),
            ("bfloat16", "between-graph", False, 1),
        ),
    ],
)
def test_the_weights_have_the_error_of_rounding_and_are_kept_without(
    train_here: Train, wire_dtype: str, replication: str, sync: bool, workers: int
) -> None:
    program = wide.small(wire_dtype=wire_dtype)
    trained = train_here(program, replication, sync=sync, workers=workers)
    alone = train_here(wide.small())
    first = train_here(wide.small(), folder="first", max_steps=1)
    # Measured: 0.012 to 0.036. Adam moves a weight whose gradients are near zero by the sign of
    # what rounding has left of them.
    for name in (f"layer{layer}" for layer in range(wide.LAYERS)):
        error = (
            np.abs(trained.values[name] - alone.values[name]).mean()
            / np.abs(alone.values[name] - first.values[name]).mean()
        )
        assert 0 < error < 0.06
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
        *longer(("in-graph", False, 2)),
    ],
)
def test_a_copy_is_what_its_ps_has_sent_and_as_good_as_the_variable(
    train_here: Train, replication: str, sync: bool, workers: int
) -> None:
    local = LocalValues()

    def loss(features: Any) -> Any:
        weights = tf.compat.v1.get_variable(
            "weights", [200, 101], initializer=tf.compat.v1.glorot_uniform_initializer(seed=1)
        )
        return tf.reduce_mean(tf.tanh(tf.matmul(features, weights)) ** 2)

    program = toys.repeated(
        loss,
        np.random.default_rng(1).normal(size=[8, 200]).astype(np.float32),
        30,
        optimizer=lambda: tf.compat.v1.train.MomentumOptimizer(0.5, 0.9),
        hooks=[local],
        wire_dtype="int8",
    )
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


def test_a_gradient_that_is_not_finite_ends_the_training(train_here: Train) -> None:
    def loss(features: Any) -> Any:
        # Its own value is finite, its gradient is not.
        root = tf.sqrt(toys.ones("weights", [100, 100]) - 1)
        return tf.reduce_mean(features) + tf.reduce_sum(root)

    batch, config = np.ones([4], np.float32), {"wire_dtype": "int8", "nan_guard": "gradients"}
    program = toys.repeated(loss, batch, 5, **config)
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

    program = psclust.Program(
        model, lambda: tf.data.Dataset.range(4), config=psclust.TrainConfig(wire_dtype="int8")
    )
    with (
        tf.Graph().as_default(),
        pytest.raises(UsageError, match="wire_dtype int8, and model_fn returns a ready train_op"),
    ):
        build(program, "between-graph async")
