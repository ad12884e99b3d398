"""The devices and transfers of a graph if a process or a worker has several devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tensorflow as tf

import psclust
from beds.graphs import build
from psclust.errors import UsageError
from psclust.replication.build_in_graph import build_in_graph
from psclust.replication.device_layout import DeviceLayout, host_of
from psclust.train.tower_devices import input_of, own_devices

pytestmark = pytest.mark.tensorflow

CPUS = ("/device:CPU:0", "/device:CPU:1")


def _model(features: Any) -> psclust.EstimatorSpec:
    weights = tf.compat.v1.get_variable("w", [3, 2])
    return psclust.EstimatorSpec("train", loss=tf.reduce_mean(tf.matmul(features, weights)))


def _program(**config: Any) -> psclust.Program:
    def data(shard: psclust.Shard) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.fill([4, 3], float(shard.index + shard.count)))

    optimizer = lambda: tf.compat.v1.train.MomentumOptimizer(1.0, 0.9)  # noqa: E731
    return psclust.Program(_model, data, optimizer, config=psclust.TrainConfig(**config))


def _devices(graph: Any, *types: str) -> set[str]:
    return {op.device for op in graph.get_operations() if op.type in types}


def test_the_towers_of_one_process_share_variables_on_its_cpu() -> None:
    with tf.Graph().as_default() as graph:
        build_in_graph(
            _program(), DeviceLayout(0, ("/device:GPU:0", "/device:GPU:1"), ""), sync=True
        )
    assert _devices(graph, "MatMul") == {"/device:GPU:0", "/device:GPU:1"}
    assert _devices(graph, "VarHandleOp", "ResourceApplyMomentum", "IteratorV2") == {
        "/device:CPU:0"
    }


def test_the_towers_of_a_worker_push_one_gradient_of_each_variable() -> None:
    with tf.Graph().as_default() as graph:
        build(_program(), "between-graph sync", replica=1, ps=1, devices=CPUS)
    here = "/job:worker/task:1/device:CPU"
    assert _devices(graph, "MatMul") == {f"{here}:0", f"{here}:1"}
    assert _devices(graph, "IteratorV2") == {f"{here}:0"}
    (push,) = [op for op in graph.get_operations() if op.type.endswith("AccumulatorApplyGradient")]
    assert push.device == "/job:ps/task:0"
    (gradient,) = [value.op for value in push.inputs if value.dtype == tf.float32]
    assert (gradient.type, gradient.device) == ("AddN", f"{here}:0")


def test_each_tower_of_a_worker_reads_a_shard_of_all_towers_shards() -> None:
    shards: list[psclust.Shard] = []

    def data(shard: psclust.Shard) -> tf.data.Dataset:
        shards.append(shard)
        return tf.data.Dataset.from_tensors(tf.zeros([4, 3]))

    for split in (False, True):
        program = replace(_program(split_batch=split), input_fn=data)
        with tf.Graph().as_default():
            build(program, "between-graph async", replica=1, ps=1, devices=CPUS)
    assert shards == [psclust.Shard(2, 4), psclust.Shard(3, 4), psclust.Shard(1, 2)]


def test_the_host_of_a_device_is_the_cpu_of_its_task() -> None:
    assert host_of("/job:worker/task:1/device:GPU:3") == "/job:worker/task:1/device:CPU:0"
    assert (host_of("/job:worker/task:1"), host_of("")) == ("/job:worker/task:1", "")


def test_a_process_has_one_device_unless_it_is_asked_for_more() -> None:
    assert own_devices(None) == own_devices(1) == ("",)
    assert own_devices(3) == (*CPUS, "/device:CPU:2")


def test_the_number_of_devices_is_a_whole_one() -> None:
    for count in (0, 1.5):
        with pytest.raises(UsageError, match="device_count is"):
            psclust.TrainConfig(device_count=count)  # type: ignore[arg-type]


def test_messages_name_the_tower_that_an_input_is_of() -> None:
    assert input_of("/job:worker/task:1/device:GPU:0") == "the input of worker:1 GPU:0"
    assert [input_of("/job:worker/task:1"), input_of("/device:CPU:1"), input_of("")] == [
        "the input of worker:1",
        "the input of CPU:1",
        "the input",
    ]
