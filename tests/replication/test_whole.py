"""The whole value of a partitioned variable on its worker: put together as shards arrive, read
without a copy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import psclust
from beds.graphs import HOWS, build
from psclust.placement.placement_settings import PlacementSettings
from psclust.replication import kernels
from psclust.replication.graph_walk import before, reached
from psclust.replication.wire import eight_bits
from psclust.replication.wire.whole import can_be_put_together, put_together

pytestmark = pytest.mark.tensorflow

ONES = np.ones(4, np.float32)
CUT = PlacementSettings("balanced", max_shard_bytes=400_000)


@pytest.fixture
def session() -> Iterator[tf.compat.v1.Session]:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as made:
        kernels.use()
        yield made


SHAPES = [
    ([400, 400, 400], (250,)),
    ([7, 6, 6], (64,)),
    ([128, 64], ()),
    ([3, 5], (10, 20)),
    ([2, 0, 1], (33,)),
    ([1], (5,)),
]


@pytest.mark.parametrize(("rows", "others"), SHAPES)
def test_parts_stand_one_after_another(
    session: Any, rows: list[int], others: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(3)
    parts = [rng.integers(0, 100, (count, *others)) for count in rows]
    # Fed, so that nothing is computed before it runs.
    fed = {tf.compat.v1.placeholder(tf.float32, part.shape): part for part in parts}
    whole = put_together(list(fed))
    assert whole.shape == (sum(rows), *others)
    np.testing.assert_array_equal(session.run(tf.cast(whole, tf.int64), fed), np.concatenate(parts))


@pytest.mark.parametrize(("rows", "others"), SHAPES)
def test_parts_as_they_have_travelled(
    session: Any, rows: list[int], others: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(4)
    fed: dict[Any, Any] = {}

    def values(count: int) -> Any:
        placeholder = tf.compat.v1.placeholder(tf.float32, [count, *others])
        fed[placeholder] = rng.normal(size=placeholder.shape).astype(np.float32)
        return placeholder

    parts, bases, expected = [], [], []
    for number, count in enumerate(rows):
        part, base = values(count), values(count) if number % 2 == 0 and count else None
        message = part if base is None else eight_bits.encode_difference(part, base)[0]
        expected.append(part if base is None else base + eight_bits.decode(message, base.shape))
        if base is None:
            message = tf.cast(message, tf.bfloat16)
            expected[-1] = tf.cast(message, tf.float32)
        parts.append(message)
        bases.append(base)
    whole, shards = session.run([put_together(parts, bases), expected], fed)
    np.testing.assert_array_equal(whole, np.concatenate(shards))


def test_a_part_is_in_its_place_while_others_are_awaited_and_who_reads_the_last_value_keeps_it(
    session: Any,
) -> None:
    late = tf.queue.FIFOQueue(1, tf.float32, [[64, 100]])
    first, last = (
        tf.fill([64, 100], tf.compat.v1.placeholder(tf.float32, [], name="value")),
        late.dequeue(),
    )
    kept = tf.compat.v1.Variable(tf.zeros([128, 100]), use_resource=True)
    session.run(kept.initializer)
    before_ = kept.read_value()
    whole = put_together([first, last])
    with tf.control_dependencies([before_]):
        assigned = kept.assign(whole, read_value=False)
    with tf.control_dependencies([assigned]):
        seen = tf.identity(before_)
    for value in (1.0, 2.0):
        found: list[Any] = []
        run = threading.Thread(
            target=lambda value=value, found=found: found.append(
                session.run(seen, {"value:0": value})
            )
        )
        run.start()
        session.run(late.enqueue(tf.fill([64, 100], -value)))
        run.join()
        assert (found[0][:64] == value - 1).all()
        assert (found[0][64:] == 1 - value).all()
    assert (session.run(kept)[[0, 127]] == [[2.0], [-2.0]]).all()


@pytest.mark.parametrize(
    ("message", "bases", "sizes", "reason"),
    [
        # sizes: at, count, block.
        (ONES, [], (5, 4, 4), "differ in size"),
        (ONES, [], (0, 5, 4), "differ in size"),
        (np.zeros(8, np.int8), [np.ones(5, np.float32)], (0, 4, 4), "differ in size"),
        (np.zeros(7, np.int8), [], (0, 4, 4), "differ in size"),
        (ONES, [ONES], (0, 4, 4), "only what an int8 message says"),
        (ONES, [], (-1, 4, 4), "at is not"),
        (ONES, [], (0, 4, 1025), "not between 1 and 1024"),
    ],
)
def test_the_kernel_writes_nowhere_else(
    message: Any, bases: list[Any], sizes: tuple[int, int, int], reason: str
) -> None:
    place, (at, count, block) = kernels.loaded().psclust_place, sizes
    with (
        tf.Graph().as_default(),
        tf.compat.v1.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=reason),
    ):
        session.run(place(tf.ones([8]), message, bases, at=at, count=count, block=block))


def test_what_the_kernel_does_not_take_is_left_to_concat(graph: tf.Graph) -> None:
    assert can_be_put_together([tf.zeros([30, 64])]) == (kernels.in_use() is not None)
    assert not can_be_put_together([tf.zeros([30, 64], tf.float64)])


def _model(features: Any, labels: Any) -> psclust.EstimatorSpec:
    get = tf.compat.v1.get_variable
    x = tf.matmul(tf.matmul(features, get("first", [100, 3000])), get("second", [3000, 100]))
    return psclust.EstimatorSpec("train", loss=tf.reduce_mean((x + get("bias", [100])) ** 2))


def _data() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ones([4, 100]), tf.zeros([4], tf.int64))).repeat()


def _program(wire_dtype: str) -> psclust.Program:
    optimizer = lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)  # noqa: E731
    return psclust.Program(
        _model, _data, optimizer, config=psclust.TrainConfig(wire_dtype=wire_dtype)
    )


@pytest.mark.parametrize("wire_dtype", ["float32", "int8"])
@pytest.mark.parametrize("how", HOWS)
def test_a_step_does_not_begin_with_putting_shards_together(how: str, wire_dtype: str) -> None:
    with tf.Graph().as_default() as graph:
        kernels.use()
        build(_program(wire_dtype), how, CUT)
        operations = graph.get_operations()
        handles = [op.name for op in operations if op.type == "VarHandleOp" and "/copy" in op.name]
        hosts = 2 if how.startswith("in-graph") else 1
        assert sorted(name.split("/")[-2] for name in handles) == sorted(
            ["bias", "first", "second"] * hosts
        )
        multiplied = [op for op in operations if op.type == "MatMul"]
        assert multiplied
        for operation in multiplied:
            assert not [op for op in reached([operation], before).values() if op.type == "ConcatV2"]


@pytest.mark.parametrize(
    ("wire_dtype", "travels"),
    [("float32", tf.float32), ("bfloat16", tf.bfloat16), ("int8", tf.int8)],
)
@pytest.mark.parametrize("how", ["in-graph sync", "between-graph sync", "between-graph async"])
def test_a_shard_is_put_into_its_place_as_it_has_travelled(
    how: str, wire_dtype: str, travels: Any
) -> None:
    with tf.Graph().as_default() as graph:
        kernels.use()
        build(_program(wire_dtype), how, CUT)
        pulled = reached([op for op in graph.get_operations() if op.name == "pulled_anew"], before)
        arriving = [
            op
            for op in graph.get_operations()
            if op.type == "PsclustPlace"
            and op.name not in pulled
            and op.inputs[1].op.device.startswith("/job:ps")
            and op.inputs[1].dtype == travels
        ]
        # A value is cast once, for however many workers. One has four shards, the other three.
        assert len({op.inputs[1].name for op in arriving}) == 7
        assert len(arriving) == 7 * (2 if how.startswith("in-graph") else 1)
