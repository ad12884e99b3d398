"""Gradients that leave one after another: which waits for which, and that all arrive."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication.passes.in_turn import Leaving, leave_in_turn

pytestmark = pytest.mark.tensorflow

QUARTER = 250_000  # of the bytes that may be under way
WORKER, PS = "/job:worker/task:0", ("/job:ps/task:0", "/job:ps/task:1")


@pytest.mark.parametrize(
    ("sizes", "awaited"),
    [
        ([8, 8, 8, 8], [None, None, 0, 1]),
        ([2, 2, 2, 2], [None, None, 0, 1]),
        ([1, 1, 1, 1, 1, 1], [None, None, None, None, 0, 1]),
        ([1, 8, 1, 8], [None, None, 0, 1]),
        ([1, 1, 1], [None, None, None]),
    ],
    ids=["large", "of half the window", "smaller", "unequal", "all at once"],
)
def test_two_or_as_many_as_fill_the_window_are_under_way(
    sizes: list[int], awaited: list[int | None]
) -> None:
    with tf.Graph().as_default():
        made = [tf.zeros([1], name=f"g{index}") for index in range(len(sizes))]
        arrived = leave_in_turn(
            [Leaving(t, PS[0], size * QUARTER) for t, size in zip(made, sizes, strict=True)], WORKER
        )
        waits = [[op.name for op in tensor.op.inputs[0].op.control_inputs] for tensor in arrived]
        assert waits == [[] if index is None else [arrived[index].op.name] for index in awaited]
        assert {(t.op.device, t.op.inputs[0].op.device) for t in arrived} == {(PS[0], WORKER)}


def test_the_order_is_that_in_which_they_were_made() -> None:
    with tf.Graph().as_default():
        made = [tf.zeros([1]) for _ in range(4)]
        last_first = [Leaving(tensor, PS[0], 8 * QUARTER) for tensor in made][::-1]
        arrived = leave_in_turn(last_first, WORKER)[::-1]
        assert [tensor.op.inputs[0].op.control_inputs for tensor in arrived] == [
            [],
            [],
            [arrived[0].op],
            [arrived[1].op],
        ]


@pytest.mark.parametrize(
    ("leaving", "awaited"),
    [
        ([(0, 8), (1, 8), (0, 8), (1, 8), (0, 8), (1, 8)], [[], [], [], [], [0, 1], [1, 0]]),
        (
            [(0, 2), (1, 2), (0, 2), (1, 2), (0, 2), (1, 2), (0, 2), (1, 2)],
            [[], [], [], [], [0], [1], [2, 1], [3, 0]],
        ),
        ([(0, 8), (0, 8), (0, 8), (1, 2), (1, 2), (1, 2)], [[], [], [0], [], [], [3]]),
        ([(0, 8), (1, 2), (0, 8), (1, 2), (0, 8), (1, 2)], [[], [], [], [], [0, 1], [1]]),
        ([(0, 1), (1, 1), (0, 1), (1, 1)], [[], [], [], []]),
    ],
    ids=[
        "large",
        "of half the window",
        "for one ps before the other",
        "unequal loads",
        "all at once",
    ],
)
def test_a_ps_waits_for_what_another_had_before_it_by_shares_of_what_leaves_for_them(
    leaving: list[tuple[int, int]], awaited: list[list[int]]
) -> None:
    with tf.Graph().as_default():
        arrived = leave_in_turn(
            [Leaving(tf.zeros([1]), PS[ps], size * QUARTER) for ps, size in leaving], WORKER
        )
        waits = [{op.name for op in tensor.op.inputs[0].op.control_inputs} for tensor in arrived]
        assert waits == [{arrived[index].op.name for index in those} for those in awaited]


def test_what_waits_is_packed_when_its_turn_has_come() -> None:
    with tf.Graph().as_default():
        made = [tf.zeros([1]) for _ in range(3)]
        arrived = leave_in_turn(
            [Leaving(tensor, PS[0], 8 * QUARTER, tf.negative) for tensor in made], WORKER
        )
        packed = [tensor.op.inputs[0].op for tensor in arrived]
        assert [op.type for op in packed] == ["Neg"] * 3
        assert [op.inputs[0].op.control_inputs for op in packed] == [[], [], [arrived[0].op]]


def test_they_arrive_as_they_were() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = [tf.constant(np.full([3], index)) for index in range(5)]
        arrived = session.run(
            leave_in_turn([Leaving(tensor, "", 8 * QUARTER) for tensor in made], "")
        )
    assert [value.tolist() for value in arrived] == [[index] * 3 for index in range(5)]
