"""The device of every variable and every tower op, in both replications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

import psclust
from beds.graphs import HOWS, WORKERS, build
from psclust.placement.placement_settings import PlacementSettings
from psclust.replication.build_in_graph import build_in_graph
from psclust.replication.device_layout import LOCAL

pytestmark = pytest.mark.tensorflow

SGD = "GradientDescentOptimizer"
DEALT_IN_TURN = PlacementSettings("round_robin")
# What the five variables of the model, in order of creation, are dealt.
DEALT = {
    "layer1/weights": "/job:ps/task:0",
    "layer1/biases": "/job:ps/task:1",
    "layer2/weights": "/job:ps/task:0",
    "layer2/biases": "/job:ps/task:1",
    "scale": "/job:ps/task:0",
}
COUNTERS = {name: "/job:ps/task:0" for name in ("global_step", "psclust/positions", "psclust/done")}


def _input(shard: psclust.Shard) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ones([2, 3]), tf.ones([2, 1]))).repeat(4)


def _model(features: Any, labels: Any, mode: str) -> psclust.EstimatorSpec:
    x = features
    for name in ("layer1", "layer2"):
        with tf.compat.v1.variable_scope(name):
            x = tf.matmul(x, tf.compat.v1.get_variable("weights", [3, 3]))
            x += tf.compat.v1.get_variable("biases", [3])
    scale = tf.compat.v1.get_variable("scale", [])
    guess = tf.reduce_sum(x, 1, keepdims=True) * scale
    # Between the variables of the model and those of the optimizer there are local ones.
    metrics = {"error": tf.compat.v1.metrics.mean_absolute_error(labels, guess)}
    return psclust.EstimatorSpec(
        mode, loss=tf.reduce_mean((guess - labels) ** 2), eval_metric_ops=metrics
    )


def _program(optimizer: str) -> psclust.Program:
    return psclust.Program(_model, _input, lambda: getattr(tf.compat.v1.train, optimizer)(0.1))


@pytest.fixture
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def _devices(variables: Any) -> dict[str, str]:
    return {variable.op.name: variable.device for variable in variables}


@pytest.mark.parametrize("optimizer", [SGD, "AdamOptimizer"])
@pytest.mark.parametrize("replica", [0, 1])
@pytest.mark.parametrize("how", HOWS)
def test_variables_are_dealt_round_robin_over_the_ps(
    graph: Any, how: str, replica: int, optimizer: str
) -> None:
    build(_program(optimizer), how, DEALT_IN_TURN, replica=replica)
    found = _devices(tf.compat.v1.global_variables())
    assert {name: device for name, device in found.items() if name in DEALT} == DEALT
    assert {name: device for name, device in found.items() if name in COUNTERS} == COUNTERS


def test_in_graph_every_op_of_a_tower_is_on_its_worker(graph: Any) -> None:
    build(_program("AdamOptimizer"), "in-graph sync", DEALT_IN_TURN)
    for tower, worker in enumerate(WORKERS):
        ops = [op for op in graph.get_operations() if op.name.startswith(f"tower_{tower}/")]
        assert {
            op.device
            for op in ops
            if op.type in ("MatMul", "IteratorV2", "IteratorGetNext", "SquaredDifference", "Sum")
        } == {worker}
        # Reads sit with the variable; all else of the tower, gradients included, sits on the
        # worker.
        elsewhere = {op.type for op in ops if op.device != worker}
        assert elsewhere <= {"ReadVariableOp", "Const", "Shape", "VariableShape"}
        assert {
            op.device
            for op in ops
            if op.name.startswith(f"tower_{tower}/gradients/") and op.type == "MatMul"
        } == {worker}


@pytest.mark.parametrize("replica", [0, 1])
def test_between_graph_the_model_and_its_gradients_are_on_the_own_worker(
    graph: Any, replica: int
) -> None:
    build(_program(SGD), "between-graph async", DEALT_IN_TURN, replica=replica)
    ops, worker = graph.get_operations(), WORKERS[replica]
    assert {op.device for op in ops if op.type in ("MatMul", "IteratorV2", "IteratorGetNext")} == {
        worker
    }
    assert not [
        op.name for op in ops if op.device.startswith("/job:worker") and op.device != worker
    ]


def test_local_variables_stay_on_their_worker(graph: Any) -> None:
    build(_program(SGD), "in-graph sync", DEALT_IN_TURN)
    found = _devices(tf.compat.v1.local_variables())
    copies = [name for name in found if "/copy" in name]
    for tower, worker in enumerate(WORKERS):
        own = {device for name, device in found.items() if name.startswith(f"tower_{tower}/")}
        assert own == {worker}
        assert sum(found[name] == worker for name in copies) == len(DEALT)
    assert len(found) == 4 + len(copies)


def test_between_graph_local_variables_stay_on_the_worker(graph: Any) -> None:
    build(_program(SGD), "between-graph sync", DEALT_IN_TURN, replica=1)
    assert set(_devices(tf.compat.v1.local_variables()).values()) == {WORKERS[1]}


def test_gradients_are_averaged_and_applied_where_the_variable_is(graph: Any) -> None:
    built = build(_program(SGD), "in-graph sync", DEALT_IN_TURN)
    applied = {
        op.inputs[0].op.name: op.device
        for op in graph.get_operations()
        if op.type == "ResourceApplyGradientDescent"
    }
    assert applied == DEALT
    sums = [
        op
        for op in graph.get_operations()
        if op.type == "AddN" and op.inputs[0].dtype == tf.float32 and "/job:ps" in op.device
    ]
    assert sorted(op.device for op in sums) == sorted(DEALT.values())
    assert len(built.towers) == 2


def test_synchronous_workers_push_to_the_ps_of_the_variable(graph: Any) -> None:
    build(_program(SGD), "between-graph sync", DEALT_IN_TURN, replica=1)
    pushes = [
        op.device for op in graph.get_operations() if op.type.endswith("AccumulatorApplyGradient")
    ]
    assert sorted(pushes) == sorted(DEALT.values())
    queues = {
        op.get_attr("shared_name"): op.device
        for op in graph.get_operations()
        if op.type == "FIFOQueueV2"
    }
    names = [b"psclust/messages", b"psclust/tokens_0", b"psclust/tokens_1"]
    assert queues == {name: "/job:ps/task:0/device:CPU:*" for name in names}


def test_towers_share_one_set_of_variables(graph: Any) -> None:
    build(_program("AdamOptimizer"), "in-graph sync", DEALT_IN_TURN)
    assert list(_devices(tf.compat.v1.trainable_variables())) == list(DEALT)


def test_one_process_names_no_device(graph: Any) -> None:
    build_in_graph(_program("AdamOptimizer"), LOCAL, sync=True)
    assert {op.device for op in graph.get_operations()} <= {"", "/device:CPU:0"}
