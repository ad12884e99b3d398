"""The device of every variable, for each placement policy and in both replications."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import psclust
from beds.graphs import WORKERS, build
from psclust.placement.placement_settings import PlacementSettings
from psclust.placement.table import tabulate
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.dry_build import dry_build
from psclust.replication.variables.places import BuildAgain, Places
from psclust.train.model_report import report_model
from psclust.train.progress_file import ProgressFile
from psclust.train.reporter import Reporter

pytestmark = pytest.mark.tensorflow

SIZES = {"small": 10, "large": 1000, "middle": 600, "tiny": 1}
HOWS = pytest.mark.parametrize("how", ["in-graph sync", "between-graph async"])


@pytest.fixture(autouse=True)
def _graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def program(model_fn: Callable[..., Any]) -> psclust.Program:
    return psclust.Program(
        model_fn,
        lambda: tf.data.Dataset.from_tensors([1.0]).repeat(3),
        lambda: tf.compat.v1.train.AdamOptimizer(0.1),
    )


def sizes(features: Any, mode: str) -> psclust.EstimatorSpec:
    """A model with a variable of each of SIZES, and a metric."""
    zeros = tf.compat.v1.zeros_initializer()
    variables = [
        tf.compat.v1.get_variable(name, [size], initializer=zeros) for name, size in SIZES.items()
    ]
    total = tf.add_n([tf.reduce_sum(each) for each in [features, *variables]])
    tf.compat.v1.metrics.mean(total)
    return psclust.EstimatorSpec(mode, loss=total)


def built(how: str, model: Any, policy: PlacementSettings, ps: int = 2) -> Mapping[str, str]:
    """Name -> device of every variable in the current graph, once it is built."""
    build(model, how, policy, ps=ps, replica=1)
    variables = [*tf.compat.v1.global_variables(), *tf.compat.v1.local_variables()]
    return {variable.op.name: variable.device for variable in variables}


def ps_of(devices: Mapping[str, str], names: list[str]) -> list[int]:
    return [int(devices[name].removeprefix("/job:ps/task:")) for name in names]


@HOWS
@pytest.mark.parametrize(
    "policy",
    [
        PlacementSettings("round_robin"),
        PlacementSettings("balanced"),
        PlacementSettings("balanced", max_shard_bytes=1000),
    ],
    ids=str,
)
def test_slots_are_with_their_variable_and_local_ones_on_the_worker(
    how: str, policy: PlacementSettings
) -> None:
    devices = built(how, program(sizes), policy)
    slots = [name for name in devices if name.endswith(("/Adam", "/Adam_1"))]
    assert len(slots) >= 2 * len(SIZES)
    assert all(devices[name] == devices[name.rpartition("/")[0]] for name in slots)
    assert all(
        device.startswith("/job:worker/") for name, device in devices.items() if "mean" in name
    )
    assert devices["global_step"] == "/job:ps/task:0"


@HOWS
def test_large_variables_are_cut_and_their_shards_placed_like_any_other(how: str) -> None:
    policy = PlacementSettings("balanced", max_shard_bytes=2000)
    devices = built(how, program(sizes), policy)
    assert "large" not in devices
    assert sorted(ps_of(devices, ["large/part_0", "large/part_1"])) == [0, 1]
    assert sorted(ps_of(devices, ["middle/part_0", "middle/part_1"])) == [0, 1]
    assert "small" in devices


@HOWS
def test_shards_are_where_the_table_of_the_plan_has_them(how: str) -> None:
    policy = PlacementSettings(max_shard_bytes=1000)
    devices = built(how, program(sizes), policy, ps=4)
    rows = tabulate(dry_build(program(sizes)), 4, policy, workers=1).rows
    names = [row.variable for row in rows if row.variable in devices]
    assert [name for name in names if name.startswith("large/")] == [
        f"large/part_{number}" for number in range(4)
    ]
    assert ps_of(devices, names) == [row.ps for row in rows if row.variable in devices]


@HOWS
@pytest.mark.parametrize(
    "policy",
    [
        PlacementSettings("round_robin"),
        PlacementSettings("balanced"),
        PlacementSettings("balanced", pin={"t*": 0, "large": 1}),
        PlacementSettings(pin={"large": 1}, max_shard_bytes=1000),
    ],
    ids=str,
)
def test_what_plan_says_is_what_training_does(how: str, policy: PlacementSettings) -> None:
    table = tabulate(dry_build(program(sizes)), 2, policy, workers=2)
    devices = built(how, program(sizes), policy)
    assert ps_of(devices, [row.variable for row in table.rows]) == [row.ps for row in table.rows]


def test_a_variable_of_a_later_tower_is_placed_by_its_name() -> None:
    towers = []

    def grows(features: Any, mode: str) -> Any:
        towers.append(tf.compat.v1.get_variable_scope().reuse)
        if len(towers) == 2:
            tf.compat.v1.Variable(tf.zeros([600]), trainable=False, name="late")
        return sizes(features, mode)

    devices = built("in-graph sync", program(grows), PlacementSettings("balanced"), ps=3)
    assert towers == [None, True] or towers == [False, True]
    assert ps_of(devices, ["large", "middle", "small"]) == [0, 1, 1]
    assert ps_of(devices, ["late"]) == [zlib.crc32(b"late") % 3]


def on_variables(*, functions: bool) -> tuple[Any, list[str]]:
    """A program that computes on the device of its variables, in branches of a condition and in
    functions or outside of them; and the list of the modes in which its model is built."""
    modes: list[str] = []

    def model_fn(features: Any, mode: str) -> Any:
        modes.append(mode)
        x = tf.reshape(features, [1, 1])
        first, second = (
            tf.compat.v1.get_variable(name, [1, 1000 * size])
            for name, size in (("first", 1), ("second", 2))
        )
        for weights in (first, second):
            y = tf.cond(
                tf.reduce_sum(x) > 0,
                lambda w=weights, x=x: tf.matmul(x, w),
                lambda w=weights: w + 1.0,
            )
            x = tf.matmul(y, weights, transpose_b=True)
            _, x = tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x * 2.0), [0, x])
            with tf.device(weights.device):
                norm = tf.cond(tf.reduce_sum(x) > 0, lambda: 2.0, lambda: 1.0) if functions else 2.0
                x += norm * tf.nn.l2_loss(weights)
        return psclust.EstimatorSpec(mode, loss=tf.reduce_sum(x))

    return program(model_fn), modes


@HOWS
def test_the_model_is_built_once_a_tower_and_every_op_is_on_a_ps_that_exists(how: str) -> None:
    model, modes = on_variables(functions=False)
    devices = built(how, model, PlacementSettings("balanced"))
    assert len(modes) == (2 if how == "in-graph sync" else 1)
    assert ps_of(devices, ["first", "second"]) == [1, 0]
    graph = tf.compat.v1.get_default_graph()
    functions = [
        node.device
        for function in graph._functions.values()
        for node in function.definition.node_def
    ]
    used = {
        device
        for device in [*functions, *(op.device for op in graph.get_operations())]
        if "/job:ps" in device
    }
    assert used == {"/job:ps/task:0", "/job:ps/task:1"}


def test_functions_on_the_device_of_a_variable_are_built_anew_where_it_went() -> None:
    model, modes = on_variables(functions=True)
    with pytest.raises(BuildAgain) as found:
        built("between-graph async", model, PlacementSettings("balanced"))
    placed = found.value.decided.placed or {}
    assert (placed["first"], placed["second"]) == (1, 0)
    assert len(modes) == 1


def test_of_a_cut_table_rows_travel_and_never_the_whole() -> None:
    def model_fn(features: Any, mode: str) -> Any:
        table = tf.compat.v1.get_variable("table", [100, 4])
        rows = tf.nn.embedding_lookup(table, tf.cast(features, tf.int64))
        return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(rows))

    policy = PlacementSettings("balanced", max_shard_bytes=800)
    devices = built("between-graph async", program(model_fn), policy)
    operations = tf.compat.v1.get_default_graph().get_operations()
    gathers = [op for op in operations if op.type == "ResourceGather"]
    assert [op.device for op in gathers] == [devices["table/part_0"], devices["table/part_1"]]
    assert not [op.name for op in operations if "ConcatPartitions" in op.name]
    assert {
        op.device for op in operations if op.type in ("DynamicPartition", "ParallelDynamicStitch")
    } == {WORKERS[1]}


def _cut_at(limit: Any) -> Any:
    """A scope whose variables are cut into shards of so many bytes."""
    places = Places(1, PlacementSettings(max_shard_bytes=limit))
    return tf.compat.v1.variable_scope("", custom_getter=places.getter())


def test_a_sharded_table_reads_as_the_whole_one_would() -> None:
    nn = tf.compat.v1.nn
    value = np.arange(14, dtype=np.float32).reshape(7, 2)
    with _cut_at(24):
        table = tf.compat.v1.get_variable("table", initializer=value)
    assert [shard.shape.as_list() for shard in table] == [[3, 2], [2, 2], [2, 2]]
    ids = tf.constant([[6, 0], [3, 4]])
    bags = tf.sparse.from_dense(tf.constant([[6, 0, 3], [4, 5, 0]]))
    whole = tf.constant(value)
    reads = [
        (tf.gather(table, ids), tf.gather(whole, ids)),
        (tf.nn.embedding_lookup(table, ids), tf.gather(whole, ids)),
        (nn.embedding_lookup(table, ids), tf.gather(whole, ids)),
        (nn.embedding_lookup(table, ids, "mod"), tf.gather(whole, ids)),
        [nn.embedding_lookup_sparse(each, bags, None) for each in (table, whole)],
        [nn.safe_embedding_lookup_sparse(each, bags) for each in (table, whole)],
        (table + 1.0, whole + 1.0),
        (2.0 * table, 2.0 * whole),
        (-table[1:3], -whole[1:3]),
        (tf.matmul(table, table, transpose_a=True), tf.matmul(whole, whole, transpose_a=True)),
        (tf.nn.l2_loss(table), tf.nn.l2_loss(whole)),
    ]
    with tf.compat.v1.Session() as session:
        session.run(table.initializer)
        for got, expected in session.run(reads):
            np.testing.assert_array_equal(got, expected)
        session.run(table.assign(-value))
        np.testing.assert_array_equal(session.run(table.read_value()), -value)
    assert isinstance(tf.gradients(tf.gather(table, ids), list(table))[2], tf.IndexedSlices)
    assert table.as_tensor() is tf.convert_to_tensor(table)


@pytest.mark.parametrize("use", ["matmul", "gather"])
def test_the_gradient_of_a_whole_is_taken_apart_as_tensorflow_would(use: str) -> None:
    with _cut_at(24):
        table = tf.compat.v1.get_variable("table", [7, 2])
    factor = tf.constant(np.random.default_rng(0).random((7, 3), np.float32))
    ids = tf.constant([6, 0, 3, 0])

    def loss(whole: Any) -> Any:
        if use == "gather":
            return tf.gather(whole, ids) ** 2
        return tf.matmul(whole, factor, transpose_a=True) ** 2

    shards = list(table)
    plain = tf.concat(shards, 0)
    got, expected = tf.gradients(loss(table.as_tensor()), shards), tf.gradients(loss(plain), shards)
    assert [type(gradient) for gradient in got] == [type(gradient) for gradient in expected]
    assert ("Slice" in {gradient.op.inputs[0].op.type for gradient in got}) == (use == "matmul")
    with tf.compat.v1.Session() as session:
        session.run(table.initializer)
        dense = [[tf.convert_to_tensor(each) for each in made] for made in (got, expected)]
        for one, other in zip(*session.run(dense), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("loss", ["nce_loss", "sampled_softmax_loss"])
def test_a_sampled_loss_means_the_same_rows_of_a_sharded_table(loss: str) -> None:
    v1 = tf.compat.v1
    biases = np.arange(7, dtype=np.float32)
    value = np.arange(14, dtype=np.float32).reshape(7, 2) / 10
    with _cut_at(24):
        table = v1.get_variable("table", initializer=value)
        bias = v1.get_variable("bias", initializer=biases)
    labels, sampled = tf.constant([[6], [3]], tf.int64), tf.constant([1, 4], tf.int64)
    x = tf.constant([[0.5, -1.0], [2.0, 0.1]])
    sampled_values = (sampled, tf.fill([2, 1], 0.3), tf.fill([2], 0.4))
    function = getattr(v1.nn, loss)
    # TensorFlow's default is the strategy `mod`, which would number the rows of shards anew.
    losses = [
        function(weights, b, labels, x, 2, 7, sampled_values=sampled_values)
        for weights, b in ((table, bias), (value, biases))
    ]
    with v1.Session() as session:
        session.run([table.initializer, bias.initializer])
        np.testing.assert_allclose(*session.run(losses), rtol=1e-6)


@pytest.mark.parametrize(
    "initializer", ["he_normal", "random_uniform_initializer", "glorot_uniform"]
)
def test_the_initial_value_does_not_depend_on_the_cuts(initializer: str) -> None:
    v1 = tf.compat.v1
    make = getattr(v1.initializers, initializer, None) or getattr(v1, initializer)
    values = []
    for limit in ("none", 64, 24):
        with tf.Graph().as_default(), v1.Session() as session:
            with _cut_at(limit):
                table = v1.get_variable("table", [9, 2], initializer=make(seed=3))
            session.run(table.initializer)
            values.append(session.run(tf.convert_to_tensor(table)))
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


def test_metrics_and_variables_of_unknown_shape_stay_whole() -> None:
    v1 = tf.compat.v1
    with _cut_at(4):
        made = [
            v1.get_variable("local", [10], collections=[v1.GraphKeys.LOCAL_VARIABLES]),
            v1.get_variable("scalar", [], tf.float64),
            v1.get_variable("partitioned", [10], partitioner=v1.fixed_size_partitioner(2)),
        ]
    kinds = ["ResourceVariable", "ResourceVariable", "PartitionedVariable"]
    assert [type(variable).__name__ for variable in made] == kinds


@pytest.mark.parametrize(
    ("policy", "placed"), [("round_robin", [0, 1, 0, 1, 0]), ("balanced", [1, 0, 1, 1, 1])]
)
def test_slots_of_a_ready_train_op_do_not_count(policy: str, placed: list[int]) -> None:
    v1 = tf.compat.v1

    def model_fn(features: Any, mode: str) -> Any:
        loss = sizes(features, mode).loss
        train = v1.train.AdamOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        late = v1.get_variable("late", [5])
        return psclust.EstimatorSpec(mode, loss=loss + late[0], train_op=train)

    ready = replace(program(model_fn), optimizer_fn=None)
    devices = built("between-graph async", ready, PlacementSettings(policy))
    assert ps_of(devices, [*SIZES, "late"]) == placed
    assert devices["large/Adam"] == devices["large"]


def test_a_cut_variable_is_shared_by_the_rules_of_get_variable() -> None:
    v1 = tf.compat.v1
    places = Places(1, PlacementSettings(max_shard_bytes=8))
    with v1.variable_scope("", custom_getter=places.getter()):
        first = v1.get_variable("table", [4, 1])
        with pytest.raises(ValueError, match="already exists"):
            v1.get_variable("table", [4, 1])
        with v1.variable_scope("", reuse=v1.AUTO_REUSE):
            assert v1.get_variable("table", [4, 1]) is first
    with v1.variable_scope("", reuse=True, custom_getter=places.getter()):
        again = v1.get_variable("table")
        with pytest.raises(ValueError, match="specified shape"):
            v1.get_variable("table", [5, 1])
    assert again is not first
    assert list(again)[1] is list(first)[1]


def test_the_chief_reports_what_each_ps_holds_and_warns_if_that_is_uneven(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def model_fn(features: Any, mode: str) -> Any:
        made = [tf.compat.v1.get_variable(name, [SIZES[name]]) for name in ("large", "small")]
        return psclust.EstimatorSpec(mode, loss=tf.add_n([tf.reduce_sum(each) for each in made]))

    even, uneven = (PlacementSettings(max_shard_bytes=limit) for limit in (3000, "none"))
    tower = build(program(model_fn), "between-graph async", even).tower
    reporter = Reporter(ProgressFile(None), 60.0)
    for policy in (even, uneven):
        assert caplog.messages == []
        layout = DeviceLayout(2, WORKERS, WORKERS[0], policy)
        report_model(reporter, tmp_path / "model", tower, layout)
    assert caplog.messages[0].startswith(
        "ps:0 holds 99 % of the variables' bytes (2.0 times the mean), "
        "4.0 kB of them in large; write "
    )
    model = reporter.progress.model or {}
    assert (model["folder"], model["tensorflow"]) == (str(tmp_path / "model"), tf.__version__)
    assert [each["largest"] for each in model["ps"]] == ["large", "small"]
    assert model["ps"][0]["bytes"] > 50 * model["ps"][1]["bytes"] > 0
