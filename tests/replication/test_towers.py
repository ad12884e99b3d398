"""One tower: its input, and the mistakes of user functions that are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import psclust
from beds.graphs import CLIENT, WORKERS, build
from psclust.errors import UsageError
from psclust.replication.build_in_graph import build_in_graph
from psclust.replication.device_layout import LOCAL, DeviceLayout
from psclust.replication.graph_walk import before, reached
from psclust.replication.input.batches import count_examples, known_examples
from psclust.replication.input.replica_input import build_input
from psclust.replication.towers.tower import build_tower
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.variables.places import Places
from psclust.replication.variables.training_state import create_state

pytestmark = pytest.mark.tensorflow

# Devices of a cluster that is not there: empty names for two towers in this process.
HERE = DeviceLayout(0, ("", ""), "")


def _range(count: int) -> tf.data.Dataset:
    return tf.data.Dataset.range(count).batch(4)


def _weight() -> Any:
    return tf.compat.v1.get_variable("w", [], initializer=tf.compat.v1.ones_initializer())


def _loss(features: Any) -> Any:
    return tf.reduce_mean(_weight() * tf.cast(features, tf.float32))


def _of(mode: str, loss: Any) -> psclust.EstimatorSpec:
    return psclust.EstimatorSpec(mode, loss=loss)


def _model(features: Any, mode: str) -> psclust.EstimatorSpec:
    return _of(mode, _loss(features))


def _program(
    model_fn: Callable[..., Any] = _model,
    input_fn: Callable[..., Any] = lambda: _range(10),
    **more: Any,
) -> psclust.Program:
    return psclust.Program(
        model_fn, input_fn, lambda: tf.compat.v1.train.GradientDescentOptimizer(1.0), **more
    )


def _of_rows(features: Any, mode: str) -> psclust.EstimatorSpec:
    rows = tf.gather(
        tf.compat.v1.get_variable("table", [9, 2], initializer=tf.compat.v1.ones_initializer()),
        features,
    )
    return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(rows))


def test_the_step_is_read_for_the_staleness_before_the_run_advances_it() -> None:
    with tf.Graph().as_default() as graph:
        built = build(_program(_of_rows, lambda: _range(8)), "between-graph async", ps=1)
        assert built.step is not None
        assert built.step.staleness is not None
        handle = built.state.global_step.handle.op.name
        operations = graph.get_operations()
        of_step = [op for op in operations if handle in {value.op.name for value in op.inputs}]
        (advance,) = [op for op in of_step if op.type == "AssignAddVariableOp"]
        reads = {op.name for op in of_step if op.type == "ReadVariableOp"}
        known = reached([built.step.staleness.op], before).keys()
        assert reads & known & reached([advance], before).keys()


def test_a_step_that_goes_back_to_a_checkpoint_is_no_negative_staleness(session: Any) -> None:
    state = create_state(HERE)
    stale = state.staleness_of_copies(state.advance([]), 0)
    late = state.staleness(state.begun() + 1, tf.constant(1, tf.int64))
    session.run([tf.compat.v1.global_variables_initializer()])
    session.run([tf.compat.v1.local_variables_initializer()])
    assert [session.run(stale), session.run(stale)] == [0, 0]
    state.global_step.load(7, session)
    assert [session.run(stale), session.run(stale)] == [5, 0]
    state.global_step.load(3, session)
    assert [session.run(stale), session.run(stale)] == [0, 0]
    assert session.run(late) == 0


# ---- input


@pytest.mark.parametrize(
    ("dataset", "pad", "skip", "batches"),
    [
        (lambda: _range(10), False, 0, [(0, 4), (4, 4), (8, 2)]),
        (lambda: _range(10), False, 2, [(8, 2)]),
        (lambda: _range(10), True, 0, [(0, 4), (4, 4), (8, 2), (0, 0), (0, 0)]),
        (lambda: _range(10), True, 3, [(0, 0), (0, 0)]),
        (lambda: _range(10).repeat(), True, 10**12, [(0, 4), (4, 4)]),
        (lambda: _range(0), True, 0, []),
    ],
    ids=["plain", "after those that are done", "padded", "padding", "endless", "empty"],
)
def test_batches_come_with_their_examples(
    session: Any, dataset: Callable[[], Any], pad: bool, skip: int, batches: list[tuple[int, int]]
) -> None:
    """(first element, examples) of each."""
    data = build_input(_program(input_fn=dataset), psclust.Shard(), pad=pad)
    session.run(data.initializer, {data.skip: skip})
    found = [session.run([data.features, data.examples]) for _ in batches]
    assert [(int(features[0]), int(examples)) for features, examples in found] == batches
    if not pad or not batches:
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(data.features)


def test_elements_may_be_structures(session: Any) -> None:
    features = {
        "dense": tf.zeros([5, 2]),
        "ragged": tf.RaggedTensor.from_row_lengths(tf.range(15), [3] * 5),
        "sparse": tf.sparse.from_dense(tf.ones([5, 3])),
    }
    dataset = tf.data.Dataset.from_tensors((features, tf.ones([5])))
    data = build_input(_program(input_fn=lambda: dataset), psclust.Shard(), pad=False)
    session.run(data.initializer)
    found, labels, examples = session.run([data.features, data.labels, data.examples])
    assert (sorted(found), labels.shape, examples) == (sorted(features), (5,), 5)


@pytest.mark.parametrize(
    ("batch", "examples", "known"),
    [
        (lambda: (tf.zeros([3, 2]), tf.zeros([3])), 3, 3),
        (lambda: ({"b": tf.zeros([3, 2]), "a": tf.zeros([3])}, None), 3, 3),
        (
            lambda: (tf.zeros([3, 2])[: tf.compat.v1.placeholder(tf.int32, [])], tf.zeros([3])),
            2,
            None,
        ),
        (lambda: (tf.constant(1.0), None), 1, None),
        (lambda: (tf.sparse.from_dense(tf.eye(4)), None), 4, 4),
        (lambda: (tf.ragged.constant([[1], [2, 3]]), None), 2, 2),
    ],
    ids=["tensors", "a dictionary", "of any length", "a scalar", "sparse", "ragged"],
)
def test_the_leading_dimension_counts_as_far_as_it_is_known(
    session: Any, batch: Callable[[], Any], examples: int, known: int | None
) -> None:
    made = batch()
    operations = session.graph.get_operations()
    lengths = [op.outputs[0] for op in operations if op.type == "Placeholder"]
    assert session.run(count_examples(made), dict.fromkeys(lengths, 2)) == examples
    assert known_examples(made) == known


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda: [1, 2], "input_fn returned a list; return a tf.data.Dataset"),
        (lambda: tf.data.Dataset.from_tensors((1, 2, 3)), "yields tuples of 3 elements"),
    ],
)
def test_an_input_function_that_returns_something_else_is_an_error(
    session: Any, result: Callable[[], Any], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        build_in_graph(_program(input_fn=result), LOCAL, sync=True)
    assert message in str(error.value)


def _python_input() -> tf.data.Dataset:
    return _range(8).map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64))


def test_python_in_the_input_of_a_bare_worker_is_refused_with_the_ways_out(session: Any) -> None:
    with pytest.raises(
        UsageError, match=r"Use tf\.data ops only, or Program\(\.\.\., input_on_client=True\)"
    ):
        build(_program(input_fn=_python_input), "in-graph sync", ps=1)


def test_an_input_on_the_client_may_use_python(session: Any) -> None:
    build(_program(input_fn=_python_input, input_on_client=True), "in-graph sync", ps=1)
    operations = session.graph.get_operations()
    assert {op.device for op in operations if op.type == "IteratorV2"} == {CLIENT}
    assert {op.device for op in operations if op.type == "Mean"} == set(WORKERS)


def test_between_graph_an_input_may_use_python(session: Any) -> None:
    build(_program(input_fn=_python_input), "between-graph async", ps=1)


# ---- model


@pytest.mark.parametrize(
    ("model_fn", "message"),
    [
        (lambda features, mode: _of(mode, None), "model_fn returned no loss in mode 'train'"),
        (lambda features, mode: _loss(features), "return psclust.EstimatorSpec(mode, loss=...)"),
        (lambda features, mode: None, "model_fn returned a NoneType"),
        (lambda features, mode: (1, 2), "model_fn returned a tuple"),
        (
            lambda features, mode: _of(mode, tf.stack([_loss(features)] * 3)),
            "a loss of shape (3,); return a scalar",
        ),
        (
            lambda features, mode: _of(mode, tf.reduce_mean(tf.cast(features, tf.float32))),
            "depends on no trainable variable (trainable variables: none)",
        ),
    ],
)
def test_a_model_function_that_breaks_its_contract_is_an_error(
    session: Any, model_fn: Callable[..., Any], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        build_in_graph(_program(model_fn), LOCAL, sync=True)
    assert message in str(error.value)


def test_a_loss_of_one_element_is_a_scalar(session: Any) -> None:
    program = _program(lambda features, mode: _of(mode, _loss(features)[None]))
    built = build_in_graph(program, LOCAL, sync=True)
    assert built.towers[0].loss.shape.rank == 0


def test_variables_that_towers_cannot_share_are_refused_by_name(session: Any) -> None:
    def model(features: Any, mode: str) -> psclust.EstimatorSpec:
        own = tf.Variable(1.0, name="own")
        return psclust.EstimatorSpec(mode, loss=_loss(features) * own)

    with pytest.raises(UsageError, match=r"in tower 1 \(own_1\).*get_variable"):
        build(_program(model), "in-graph sync", ps=1)


def _counting_model(features: Any, mode: str) -> psclust.EstimatorSpec:
    """A moving statistic: how often an update op has run."""
    updates = tf.compat.v1.get_variable(
        "updates", [], initializer=tf.compat.v1.zeros_initializer(), trainable=False
    )
    tf.compat.v1.add_to_collection(
        tf.compat.v1.GraphKeys.UPDATE_OPS, updates.assign_add(1.0, read_value=False)
    )
    return psclust.EstimatorSpec(mode, loss=_loss(features))


def test_only_the_first_towers_update_ops_run(session: Any) -> None:
    (step,), (_, examples) = _first_step(session, _program(_counting_model))
    assert (step, examples) == (1, 8)
    assert session.run("updates/Read/ReadVariableOp:0") == 1.0


def test_the_loss_of_towers_is_weighted_by_examples(session: Any) -> None:
    def shares(shard: psclust.Shard) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.fill([3 - 2 * shard.index], shard.index * 4))

    # Three examples with a loss of 0, one with a loss of 4.
    _, (loss, examples) = _first_step(session, _program(input_fn=shares))
    assert (loss, examples) == (1.0, 4)


def _first_step(session: Any, program: psclust.Program) -> Any:
    built = build_in_graph(program, HERE, sync=True)
    session.run(tf.compat.v1.global_variables_initializer())
    session.run([tower.input.initializer for tower in built.towers])
    return session.run(built.steps[0].fetches)


@pytest.mark.parametrize(
    ("batches", "empty", "depends"),
    [
        (lambda: _range(8).repeat(), False, True),
        (lambda: tf.data.Dataset.range(8).batch(4, drop_remainder=True), False, False),
        (lambda: tf.data.Dataset.range(8).batch(4, drop_remainder=True), True, True),
    ],
    ids=["of any length", "all alike", "or empty"],
)
def test_the_weight_is_a_constant_where_all_batches_are_alike(
    session: Any, batches: Callable[..., Any], empty: bool, depends: bool
) -> None:
    program = _program(lambda features, mode: _of(mode, tf.nn.l2_loss(_weight())), batches)
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    tower = build_tower(
        program, optimizer, LOCAL, Places(0), 0, TowerKind(weighted=True, maybe_empty=empty)
    )
    ((gradient, _),) = tower.gradients
    assert (tower.input.examples.op.name in reached([gradient.op], before)) == depends
    session.run([tf.compat.v1.global_variables_initializer(), tower.input.initializer])
    assert session.run(gradient) == 4.0


# ---- the end of the data


def _decaying(features: Any, mode: str) -> psclust.EstimatorSpec:
    """A table, of which Adam lets all moments decay in every step, and a weight whose gradient is
    the same whatever the batch."""
    rows = tf.nn.embedding_lookup(tf.compat.v1.get_variable("table", [5, 1]), features)
    return _of(mode, tf.reduce_sum(rows) + _weight())


@pytest.mark.parametrize("towers", [1, 2])
def test_the_step_that_finds_no_batch_changes_nothing(session: Any, towers: int) -> None:
    program = replace(
        _program(_decaying, lambda: tf.data.Dataset.from_tensors(tf.constant([1, 3]))),
        optimizer_fn=lambda: tf.compat.v1.train.AdamOptimizer(0.1),
    )
    layout = DeviceLayout(0, ("",) * towers, "")
    built = build_in_graph(program, layout, sync=True)
    values = {variable.op.name: variable for variable in tf.compat.v1.global_variables()}
    session.run(tf.compat.v1.global_variables_initializer())
    session.run([tower.input.initializer for tower in built.towers])
    initial = session.run(values)
    session.run(built.steps[0].fetches)
    stepped = session.run(values)
    for name in ("table", "w", "global_step"):
        assert (stepped[name] != initial[name]).any()
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(built.steps[0].fetches)
    for name, value in session.run(values).items():
        np.testing.assert_array_equal(value, stepped[name], err_msg=name)
