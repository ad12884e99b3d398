"""What travels between a ps and a worker in one step, by whichever wire, as TensorFlow's own trace
of that step tells."""

from __future__ import annotations

import re
from collections import Counter
from threading import Lock
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import toys
from trained import same
from ways import Train

from beds.tiers import longer

pytestmark = pytest.mark.tensorflow
_ONE_WORKER = Lock()  # all of a test are threads of one process


class Transfers(tf.compat.v1.train.SessionRunHook):
    """Counts the transfers from task to task in a step, `size`: of as many bytes. The most of any
    step, because a trace that ends with its step may lack what was on its way just then."""

    def __init__(self, size: int | None = None) -> None:
        self.size = size
        self.seen: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.by_tensorflow = 0

    def before_run(self, run_context: Any) -> Any:
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        return tf.compat.v1.train.SessionRunArgs(None, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        seen: Counter[tuple[str, str]] = Counter()
        moved: Counter[tuple[str, str]] = Counter()
        for device in run_values.run_metadata.step_stats.dev_stats:
            for node in device.node_stats:
                way = _way(device.device, node)
                self.by_tensorflow += node.node_name == "RecvTensor"
                sizes = [_bytes(output.tensor_description) for output in node.output]
                if way:
                    moved[way] += sum(sizes)
                if way and (self.size is None or self.size in sizes):
                    seen[way] += 1
        with _ONE_WORKER:
            self.seen |= seen
            self.bytes |= moved

    def counts(self, of: Counter[tuple[str, str]] | None = None) -> dict[str, int]:
        """`ps0 worker0`, `worker0 ps0` -> number of transfers, or what `of` says."""
        return {
            " ".join(f"{job}{index}" for job, index in way): count
            for way, count in (of or self.seen).items()
        }


def _way(device: str, node: Any) -> tuple[tuple[str, str], ...]:
    """((job, task) from which, to which) a node of the trace received a tensor."""
    if node.node_name == "RecvTensor":
        return tuple(re.findall(r"/job:(\w+)/replica:0/task:(\d+)", node.timeline_label))
    own = re.search(r"received_from_([a-z]+)_(\d+)", node.node_name)
    return (own.groups(), *re.findall(r"/job:(\w+)/replica:0/task:(\d+)", device)) if own else ()


def _bytes(tensor: Any) -> int:
    if not tensor.dtype:  # of a RecvTensor
        return int(tensor.allocation_description.requested_bytes)
    return tf.TensorShape(tensor.shape).num_elements() * tf.as_dtype(tensor.dtype).size


def _ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("replication", "sync", "devices"),
    [
        ("in-graph", True, 1),
        *longer(("in-graph", True, 2), ("between-graph", False, 1), ("between-graph", False, 2)),
    ],
)
def test_a_worker_pulls_a_variable_and_pushes_its_gradient_once_whatever_its_towers_do(
    train_here: Train, replication: str, sync: bool, devices: int
) -> None:
    def loss(features: Any) -> Any:
        weights = toys.ones("weights", [300, 2])
        # Three times used, forward alone.
        product = tf.matmul(features, weights)
        return tf.reduce_mean(product**2) + tf.nn.l2_loss(weights) + tf.reduce_sum(weights)

    transfers = Transfers(300 * 2 * 4)
    program = toys.repeated(loss, _ones(4, 300), hooks=[transfers])
    train_here(program, replication, sync=sync, here=True, workers=1, devices=devices)
    assert transfers.counts() == {"ps0 worker0": 1, "worker0 ps0": 1}


@pytest.mark.parametrize("size", [*longer(None), 600 * 600 * 4], ids=["all", "large"])
def test_a_streamed_step_sends_no_more_than_one_that_pulls_first(
    train_here: Train, size: int | None
) -> None:
    def loss(features: Any) -> Any:
        for name in ("first", "second"):
            weights = tf.compat.v1.get_variable(
                name, [600, 600], initializer=tf.compat.v1.constant_initializer(0.001)
            )
            features = tf.nn.tanh(tf.matmul(features, weights) + toys.zeros(f"{name}_bias", [600]))
        return tf.reduce_mean(features**2)

    transfers = [Transfers(size), Transfers(size)]
    for each, copies in zip(transfers, (True, False), strict=True):
        program = toys.repeated(loss, _ones(4, 600), hooks=[each], local_copies=copies)
        train_here(program, "between-graph", sync=True, here=True, folder=f"copies-{copies}")
    streamed, pulled = (each.counts() for each in transfers)
    assert streamed == pulled
    # The chief's order for each ps has three numbers.
    assert sum(transfers[0].bytes.values()) <= sum(transfers[1].bytes.values()) + 2 * 3 * 8
    if size is not None:
        assert set(streamed.values()) == {1}


@pytest.mark.parametrize(
    ("replication", "sync", "pushed"),
    [("between-graph", True, 2), *longer(("between-graph", False, 1), ("in-graph", True, 1))],
)
def test_small_variables_of_a_ps_travel_in_one_message(
    train_here: Train, replication: str, sync: bool, pushed: int
) -> None:
    def loss(features: Any) -> Any:
        weights = [toys.ones(f"weight_{i}", [i + 1, 3]) for i in range(6)]
        return sum(tf.reduce_mean(features) * tf.nn.l2_loss(weight) for weight in weights)

    transfers = Transfers()
    program = toys.repeated(loss, _ones(4), hooks=[transfers])
    trained = train_here(program, replication, sync=sync, here=True, workers=1)
    # To the worker three variables and, where it is the client, what the first ps says of the step;
    # from it their gradients and, at a barrier, a report that tells the number of the round.
    found = transfers.counts()
    assert found["ps1 worker0"] == 1
    assert found["ps0 worker0"] == (1 if replication == "in-graph" else 2)
    assert found["worker0 ps0"] == found["worker0 ps1"] == pushed
    for i in range(6):
        np.testing.assert_allclose(trained.values[f"weight_{i}"], 0.99**20, rtol=1e-5)


@pytest.mark.parametrize(
    ("replication", "sync", "rows", "pulled"),
    [
        ("in-graph", True, 300, 30 * 1004),
        *longer(("between-graph", False, 300, 30 * 1004), ("in-graph", False, 300, 30 * 1004)),
        # A model so small is not streamed, and what is pulled as a whole is bfloat16.
        ("between-graph", True, 300, 2 * 30_000),
        ("between-graph", True, 3000, 300 * 1004),
    ],
)
def test_as_int8_a_large_variable_takes_a_byte_for_each_value(
    train_here: Train, replication: str, sync: bool, rows: int, pulled: int
) -> None:
    def loss(features: Any) -> Any:
        return tf.reduce_mean(features) * tf.nn.l2_loss(toys.ones("weights", [rows, 100]))

    transfers = Transfers()
    program = toys.repeated(loss, _ones(4), hooks=[transfers], wire_dtype="int8")
    trained = train_here(program, replication, sync=sync, here=True, workers=1, ps=1)
    found = transfers.counts(transfers.bytes)
    # In blocks of a thousand values with a scale each; then the round of a barrier, or what the
    # client is told of the step.
    assert pulled <= found["ps0 worker0"] <= pulled + 100
    # The message to the barrier, and the chief's orders.
    assert rows // 10 * 1004 <= found["worker0 ps0"] <= rows // 10 * 1004 + 8 * (5 + 13 + 2)
    np.testing.assert_allclose(trained.values["weights"], 0.99**20, rtol=1e-3)


@pytest.mark.parametrize(
    ("replication", "sync"),
    [("between-graph", False), ("in-graph", True), *longer(("between-graph", True))],
)
def test_a_row_travels_once_however_often_a_batch_has_its_id(
    train_here: Train, replication: str, sync: bool
) -> None:
    def loss(features: Any) -> Any:
        table = tf.compat.v1.get_variable(
            "table", [300, 64], initializer=tf.compat.v1.glorot_uniform_initializer(seed=1)
        )
        rows = tf.nn.embedding_lookup(table, features)
        assert rows.shape == [16, 5, 64]
        return tf.reduce_mean(tf.sin(rows) * rows)

    transfers = Transfers()
    program = toys.repeated(
        loss,
        np.array([[3, 4, 4, 299, 0]] * 15 + [[3, 3, 3, 3, 3]]),
        10,
        optimizer=lambda: tf.compat.v1.train.AdamOptimizer(0.1),
        hooks=[transfers],
        wire_dtype="bfloat16",
    )
    trained = train_here(program, replication, sync=sync, here=True, workers=1, ps=1)
    # Four of the eighty, each way with their ids.
    ids, rows = 4 * 8, 4 * 64 * 2
    assert rows <= transfers.counts(transfers.bytes)["ps0 worker0"] <= rows + 200
    assert rows <= transfers.counts(transfers.bytes)["worker0 ps0"] - 2 * ids <= rows + 200
    same(train_here(program), trained, rtol=0.02)


# A trace has the update where the client that is traced makes it, which the chief of a barrier does
# in another run.
@pytest.mark.parametrize(
    ("replication", "sync"), [("in-graph", True), *longer(("between-graph", False))]
)
def test_what_travels_between_the_ps_does_not_grow_with_the_variables(
    train_here: Train, replication: str, sync: bool
) -> None:
    found = []
    for layers in (4, 12):
        transfers = Transfers()
        program = _layers(layers, transfers)
        train_here(program, replication, sync=sync, here=True, folder=f"layers-{layers}")
        counts, moved = transfers.counts(), transfers.counts(transfers.bytes)
        ways = [way for way in counts if re.fullmatch(r"ps\d ps\d", way)]
        assert ways
        # Numbers, not variables of 40 kB.
        assert sum(moved[way] for way in ways) < 500
        found.append({way: counts[way] for way in ways})
    assert found[0] == found[1]


def _layers(layers: int, transfers: Transfers) -> Any:
    """With all that an update can do with a variable beside the optimizer."""

    def loss(features: Any) -> Any:
        for layer in range(layers):
            weights = tf.compat.v1.get_variable(
                f"layer{layer}", [100, 100], initializer=tf.compat.v1.constant_initializer(0.01)
            )
            features = tf.nn.tanh(tf.matmul(features, weights))
        return tf.reduce_mean(features**2)

    config = {"average_decay": 0.9, "clip_norm": 1.0, "nan_guard": "gradients"}
    return toys.repeated(loss, _ones(4, 100), 30, hooks=[transfers], weight_decay=0.01, **config)


@pytest.mark.parametrize(
    ("replication", "sync"), [("between-graph", False), ("between-graph", True), ("in-graph", True)]
)
@pytest.mark.parametrize("width", [8, 600], ids=["small", "streamed"])
def test_nothing_of_a_step_is_left_to_tensorflows_wire(
    train_here: Train, replication: str, sync: bool, width: int
) -> None:
    def loss(features: Any) -> Any:
        for name in ("first", "second"):
            features = tf.matmul(features, tf.compat.v1.get_variable(name, [width, width]))
        return tf.reduce_mean(features**2)

    transfers = Transfers()
    program = toys.repeated(loss, _ones(4, width), 10, hooks=[transfers])
    train_here(program, replication, sync=sync, here=True, ps=2)
    assert transfers.seen
    assert transfers.by_tensorflow == 0
