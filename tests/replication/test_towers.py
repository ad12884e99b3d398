"""One tower: its input, and the mistakes of user functions that are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import psclust
from psclust.errors import UsageError
from psclust.replication.build_between_graph import build_between_graph
from psclust.replication.build_in_graph import build_in_graph
from psclust.replication.device_layout import LOCAL, DeviceLayout
from psclust.replication.graph_walk import before, reached
from psclust.replication.input.replica_input import build_input
from psclust.replication.towers.tower import build_tower
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.variables.places import Places
from psclust.replication.variables.training_state import create_state

pytestmark = pytest.mark.tensorflow

TWO = DeviceLayout(1, ("/job:worker/task:0", "/job:worker/task:1"), "/job:client/task:0")


@pytest.fixture
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield session


def _range(count: int) -> tf.data.Dataset:
    return tf.data.Dataset.range(count).batch(4)


def _weight() -> Any:
    return tf.compat.v1.get_variable("w", [], initializer=tf.compat.v1.ones_initializer())


def _loss(features: Any) -> Any:
    return tf.reduce_mean(_weight() * tf.cast(features, tf.float32))


def _program(
    model_fn: Callable[..., Any] = lambda features, mode: psclust.EstimatorSpec(
        mode, loss=_loss(features)
    ),
    input_fn: Callable[..., Any] = lambda: _range(10),
    **more: Any,
) -> psclust.Program:
    return psclust.Program(
        model_fn, input_fn, lambda: tf.compat.v1.train.GradientDescentOptimizer(1.0), **more
    )


def _batches(session: Any, data: Any, count: int, skip: int = 0) -> list[tuple[int, int]]:
    """(first element, examples) of the next batches."""
    session.run(data.initializer, {data.skip: skip})
    found = (session.run([data.features, data.examples]) for _ in range(count))
    return [(int(features[0]), int(examples)) for features, examples in found]


def _of_rows(features: Any, mode: str) -> psclust.EstimatorSpec:
    rows = tf.gather(
        tf.compat.v1.get_variable("table", [9, 2], initializer=tf.compat.v1.ones_initializer()),
        features,
    )
    return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(rows))


def test_the_step_is_read_for_the_staleness_before_the_run_advances_it() -> None:
    with tf.Graph().as_default() as graph:
        built = build_between_graph(
            _program(_of_rows, lambda: _range(8)), TWO, 0, sync=False, chief=True
        )
        assert built.step is not None
        assert built.step.staleness is not None
        handle = built.state.global_step.handle.op.name
        of_step = [
            op
            for op in graph.get_operations()
            if any(value.op.name == handle for value in op.inputs)
        ]
        (advance,) = [op for op in of_step if op.type == "AssignAddVariableOp"]
        reads = [
            op.name
            for op in of_step
            if op.type == "ReadVariableOp" and op.name in reached([built.step.staleness.op], before)
        ]
        assert set(reads) & reached([advance], before).keys()


def test_a_step_that_goes_back_to_a_checkpoint_is_no_negative_staleness(session: Any) -> None:
    state = create_state(DeviceLayout(0, ("", ""), ""))
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


def test_every_batch_says_how_many_examples_it_has(session: Any) -> None:
    data = build_input(_program(), psclust.Shard(), pad=False)
    assert _batches(session, data, 3) == [(0, 4), (4, 4), (8, 2)]
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(data.features)


def test_an_input_starts_after_the_batches_that_are_done(session: Any) -> None:
    data = build_input(_program(), psclust.Shard(), pad=False)
    assert _batches(session, data, 1, skip=2) == [(8, 2)]


def test_a_padded_input_goes_on_with_batches_without_examples(session: Any) -> None:
    data = build_input(_program(), psclust.Shard(), pad=True)
    assert _batches(session, data, 5) == [(0, 4), (4, 4), (8, 2), (0, 0), (0, 0)]
    assert _batches(session, data, 2, skip=3) == [(0, 0), (0, 0)]


def test_an_endless_input_skips_nothing(session: Any) -> None:
    data = build_input(_program(input_fn=lambda: _range(10).repeat()), psclust.Shard(), pad=True)
    assert _batches(session, data, 2, skip=10**12) == [(0, 4), (4, 4)]


def test_an_empty_input_ends_at_once_even_if_padded(session: Any) -> None:
    data = build_input(_program(input_fn=lambda: _range(0)), psclust.Shard(), pad=True)
    session.run(data.initializer)
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(data.features)


def test_elements_may_be_structures(session: Any) -> None:
    dataset = tf.data.Dataset.from_tensors(
        ({"a": tf.zeros([5, 2]), "b": tf.zeros([5])}, tf.ones([5]))
    )
    data = build_input(_program(input_fn=lambda: dataset), psclust.Shard(), pad=False)
    session.run(data.initializer)
    features, labels, examples = session.run([data.features, data.labels, data.examples])
    assert (sorted(features), labels.shape, examples) == (["a", "b"], (5,), 5)


def test_the_examples_of_sparse_and_ragged_features_are_their_rows(session: Any) -> None:
    for features in (
        tf.sparse.from_dense(tf.ones([5, 3])),
        tf.RaggedTensor.from_row_lengths(tf.range(15), [3] * 5),
    ):
        data = build_input(
            _program(input_fn=lambda features=features: tf.data.Dataset.from_tensors(features)),
            psclust.Shard(),
            pad=False,
        )
        session.run(data.initializer)
        assert session.run(data.examples) == 5


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
        build_in_graph(_program(input_fn=_python_input), TWO, sync=True)


def test_an_input_on_the_client_may_use_python(session: Any) -> None:
    program = _program(
        lambda features, mode: psclust.EstimatorSpec(mode, loss=_loss(features)),
        _python_input,
        input_on_client=True,
    )
    build_in_graph(program, TWO, sync=True)
    operations = session.graph.get_operations()
    assert {op.device for op in operations if op.type == "IteratorV2"} == {"/job:client/task:0"}
    assert {op.device for op in operations if op.type == "Mean"} == set(TWO.workers)


def test_between_graph_an_input_may_use_python(session: Any) -> None:
    build_between_graph(
        _program(input_fn=_python_input),
        DeviceLayout(1, TWO.workers, TWO.workers[0]),
        0,
        sync=False,
        chief=True,
    )


# ---- model


@pytest.mark.parametrize(
    ("model_fn", "message"),
    [
        (
            lambda features, mode: psclust.EstimatorSpec(mode),
            "model_fn returned no loss in mode 'train'",
        ),
        (lambda features, mode: _loss(features), "return psclust.EstimatorSpec(mode, loss=...)"),
        (lambda features, mode: None, "model_fn returned a NoneType"),
        (
            lambda features, mode: psclust.EstimatorSpec(
                mode, loss=tf.stack([_loss(features)] * 3)
            ),
            "a loss of shape (3,); return a scalar",
        ),
        (
            lambda features, mode: psclust.EstimatorSpec(
                mode, loss=tf.reduce_mean(tf.cast(features, tf.float32))
            ),
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
    built = build_in_graph(
        _program(lambda features, mode: psclust.EstimatorSpec(mode, loss=_loss(features)[None])),
        LOCAL,
        sync=True,
    )
    assert built.towers[0].loss.shape.rank == 0


def test_variables_that_towers_cannot_share_are_refused_by_name(session: Any) -> None:
    def model(features: Any, mode: str) -> psclust.EstimatorSpec:
        own = tf.Variable(1.0, name="own")
        return psclust.EstimatorSpec(mode, loss=_loss(features) * own)

    with pytest.raises(UsageError, match=r"in tower 1 \(own_1\).*get_variable"):
        build_in_graph(_program(model), TWO, sync=True)


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
    # Devices of a cluster that is not there: the layout has empty names for two towers in this
    # process.
    built = build_in_graph(_program(_counting_model), DeviceLayout(0, ("", ""), ""), sync=True)
    session.run(tf.compat.v1.global_variables_initializer())
    session.run([tower.input.initializer for tower in built.towers])
    (step,), (_, examples) = session.run(built.steps[0].fetches)
    assert (step, examples) == (1, 8)
    assert session.run("updates/Read/ReadVariableOp:0") == 1.0


def test_the_loss_of_towers_is_weighted_by_examples(session: Any) -> None:
    def shares(shard: psclust.Shard) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.fill([3 - 2 * shard.index], shard.index * 4))

    built = build_in_graph(_program(input_fn=shares), DeviceLayout(0, ("", ""), ""), sync=True)
    session.run(tf.compat.v1.global_variables_initializer())
    session.run([tower.input.initializer for tower in built.towers])
    # Three examples with a loss of 0, one with a loss of 4.
    _, (loss, examples) = session.run(built.steps[0].fetches)
    assert (loss, examples) == (1.0, 4)


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
    program = _program(
        lambda features, mode: psclust.EstimatorSpec(mode, loss=tf.nn.l2_loss(_weight())), batches
    )
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    tower = build_tower(
        program, optimizer, LOCAL, Places(0), 0, TowerKind(weighted=True, maybe_empty=empty)
    )
    ((gradient, _),) = tower.gradients
    assert (tower.input.examples.op.name in reached([gradient.op], before)) == depends
    session.run([tf.compat.v1.global_variables_initializer(), tower.input.initializer])
    assert session.run(gradient) == 4.0
