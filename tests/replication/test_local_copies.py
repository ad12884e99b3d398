"""Copies of variables on their workers: which there are, and that each comes back before the
gradients of others have arrived."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import psclust
from beds.graphs import build
from psclust.replication.graph_walk import before, reached

pytestmark = pytest.mark.tensorflow


def _model(features: Any, labels: Any) -> psclust.EstimatorSpec:
    get = tf.compat.v1.get_variable
    # Larger than what travels in buckets.
    x = tf.matmul(features, get("first", [100, 200]))
    x = tf.matmul(x, get("second", [200, 100])) + get("bias", [100])
    words = tf.nn.embedding_lookup(get("table", [50, 100]), labels)
    return psclust.EstimatorSpec("train", loss=tf.reduce_mean((x - words) ** 2))


def _large(features: Any, labels: Any, params: dict[str, Any]) -> psclust.EstimatorSpec:
    get = tf.compat.v1.get_variable
    x = tf.matmul(tf.matmul(features, get("first", [100, 3000])), get("second", [3000, 100]))
    words = (
        tf.nn.embedding_lookup(get("table", [50, 100]), labels)
        if params["gathers"]
        else get("bias", [100])
    )
    return psclust.EstimatorSpec("train", loss=tf.reduce_mean((x - words) ** 2))


def _data() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ones([4, 100]), tf.zeros([4], tf.int64))).repeat()


def _program(
    model: Callable[..., Any] = _model, params: dict[str, Any] | None = None, **config: Any
) -> psclust.Program:
    optimizer = lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)  # noqa: E731
    config_ = psclust.TrainConfig(**config)
    return psclust.Program(model, _data, optimizer, params=params, config=config_)


def _copies() -> dict[str, str]:
    """name -> device."""
    return {v.op.name: v.device for v in tf.compat.v1.local_variables() if "/copy" in v.op.name}


@pytest.mark.parametrize("how", ["in-graph sync", "in-graph async", "between-graph async"])
def test_a_variable_comes_back_without_waiting_for_the_gradients_of_others(how: str) -> None:
    with tf.Graph().as_default() as graph:
        build(_program(), how)
        updates = {
            op.name: op.inputs[0].op.name.split("/")[-1]
            for op in graph.get_operations()
            if op.type == "ResourceApplyMomentum"
        }
        assert set(updates.values()) == {"first", "second", "bias"}
        assigned = [
            op
            for op in graph.get_operations()
            if op.type == "AssignVariableOp" and "/copy" in op.inputs[0].op.name
        ]
        refreshed = [
            op
            for op in assigned
            if "ResourceApplyMomentum" in {each.type for each in reached([op], before).values()}
        ]
        assert len(refreshed) == len(_copies()) == (3 if how.startswith("between") else 6)
        for op in refreshed:
            waits = {updates[name] for name in reached([op], before) if name in updates}
            assert waits == {op.inputs[0].op.name.split("/")[-2]}


@pytest.mark.parametrize("gathers", [False, True])
def test_synchronous_workers_of_a_large_model_have_copies_of_all_variables_or_of_none(
    gathers: bool,
) -> None:
    with tf.Graph().as_default():
        built = build(_program(_large, {"gathers": gathers}), "between-graph sync")
        assert built.coordinator is not None
        assert (built.coordinator.stream is None) == gathers
        wholes = {name.partition("/")[0] for name in built.streamed}
        assert wholes == (set() if gathers else {"bias", "first", "second"})


def test_a_streamed_update_waits_for_the_gradients_of_its_own_variable_alone() -> None:
    with tf.Graph().as_default() as graph:
        build(_program(_large, {"gathers": False}), "between-graph sync")
        updates = [op for op in graph.get_operations() if op.type == "ResourceApplyMomentum"]
        assert updates
        for update in updates:
            needed = reached([update], before).values()
            # The sum of its own, and the number of examples of its ps.
            assert len([op for op in needed if op.type == "ResourceAccumulatorTakeGradient"]) == 2


@pytest.mark.parametrize("how", ["in-graph sync", "between-graph async"])
def test_a_worker_computes_from_its_own_copies_alone(how: str) -> None:
    with tf.Graph().as_default() as graph:
        build(_program(), how)
        for matmul in (op for op in graph.get_operations() if op.type == "MatMul"):
            for read in (value.op for value in matmul.inputs if "Read" in value.op.type):
                assert read.device == matmul.device


@pytest.mark.parametrize(
    ("how", "config", "bounded"),
    [
        ("between-graph async", {"clip_norm": 1.0}, False),
        ("in-graph sync", {"nan_guard": "gradients"}, False),
        ("in-graph async", {}, True),
        ("between-graph async", {}, True),
        ("between-graph sync", {}, False),
        ("in-graph sync", {"local_copies": False}, False),
    ],
)
def test_there_are_none_where_a_step_cannot_begin_with_what_the_one_before_has_left(
    how: str, config: dict[str, Any], bounded: bool
) -> None:
    with tf.Graph().as_default():
        build(_program(**config), how, replica=1, bounded=bounded)
        assert not _copies()


def test_a_variable_that_the_model_writes_is_pulled() -> None:
    def model(features: Any, labels: Any) -> psclust.EstimatorSpec:
        spec = _model(features, labels)
        bias = next(v for v in tf.compat.v1.trainable_variables() if v.op.name == "bias")
        tf.compat.v1.add_to_collection(
            tf.compat.v1.GraphKeys.UPDATE_OPS, bias.assign(tf.minimum(bias, 1.0)).op
        )
        return spec

    with tf.Graph().as_default():
        build(_program(model), "between-graph async")
        assert sorted(_copies()) == ["first/copy", "second/copy"]
