"""Claims of parts, in a session of this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.parts.dispenser import DispenserOps, create_dispenser, dispenser_ops
from psclust.replication.parts.part_list import PartList, checked_parts, ranges

pytestmark = pytest.mark.tensorflow


@dataclass
class Hand:
    """What a client does."""

    session: Any
    ops: DispenserOps
    dispenser: Any

    def claim(self, me: int, most: int = 1) -> tuple[list[list[int]], bool]:
        found, awaited = self.session.run(self.ops.claim, {self.ops.me: me, self.ops.most: most})
        return found.tolist(), bool(awaited)

    def run(self, name: str, **values: Any) -> Any:
        feeds = {getattr(self.ops, key): value for key, value in values.items()}
        return self.session.run(getattr(self.ops, name), feeds)

    def use(self, part: int, batches: int = 1) -> None:
        self.session.run(self.counted, {self.taken: [[part, batches]]})

    def values(self, name: str) -> list[int]:
        return self.session.run(getattr(self.dispenser, name)).tolist()


@pytest.fixture
def hand(request: pytest.FixtureRequest) -> Iterator[Hand]:
    with tf.Graph().as_default() as graph:
        parts = PartList(ranges(40, 10), **getattr(request, "param", {}))
        dispenser = create_dispenser(parts)
        made = Hand(None, dispenser_ops(dispenser, ""), dispenser)
        made.taken = tf.compat.v1.placeholder(tf.int64, [None, 2])
        made.counted = dispenser.count(made.taken)
        start = tf.compat.v1.global_variables_initializer()
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(start)
        made.session = session
        yield made


def test_each_part_is_given_once(hand: Hand) -> None:
    assert hand.claim(11, 2) == ([[0, 0], [1, 0]], False)
    assert hand.claim(22) == ([[2, 0]], True)
    assert hand.claim(22, 5) == ([[3, 0]], True)
    assert hand.claim(11) == ([], True)
    hand.run("finish", parts=[2, 3], me=22)
    hand.run("finish", parts=[0, 1, 3], me=11)
    assert hand.claim(22) == ([], False)
    assert hand.values("epochs") == [1, 1, 1, 1]


@pytest.mark.parametrize("hand", [{"epochs": 2}], indirect=True)
def test_an_epoch_begins_with_what_is_finished_and_nothing_is_an_epoch_ahead(hand: Hand) -> None:
    hand.claim(11, 3)
    hand.run("finish", parts=[0, 1], me=11)
    assert hand.claim(22, 4) == ([[3, 0]], True)
    assert hand.claim(22, 4) == ([[0, 0], [1, 0]], True)
    hand.run("finish", parts=[0], me=22)
    assert hand.claim(11) == ([], True)


def test_the_successor_of_a_dead_process_goes_on_after_the_last_batch_used(hand: Hand) -> None:
    hand.run("join", slot=1, me=11)
    hand.claim(11, 2)
    hand.use(0, 3)
    hand.run("join", slot=1, me=12)
    assert hand.claim(12, 2) == ([[0, 3], [1, 0]], False)
    # The dead one finishes nothing any more.
    hand.run("finish", parts=[0], me=11)
    assert hand.values("epochs") == [0, 0, 0, 0]
    assert not hand.run("beat", slot=1, me=11)
    assert hand.run("beat", slot=1, me=12)


@pytest.mark.parametrize("hand", [{"once": True}], indirect=True)
def test_what_a_dead_process_had_begun_is_left_where_none_may_be_used_twice(hand: Hand) -> None:
    hand.run("join", slot=1, me=11)
    hand.claim(11, 2)
    hand.use(0, 3)
    hand.run("join", slot=1, me=12)
    assert hand.claim(12, 4) == ([[1, 0], [2, 0], [3, 0]], False)


def test_who_leaves_and_who_is_silent_give_back_what_they_hold(hand: Hand) -> None:
    for slot in (0, 1, 2):
        hand.run("join", slot=slot, me=10 + slot)
        hand.claim(10 + slot)
    hand.run("leave", slot=1, me=11)
    hand.run("beat", slot=2, me=12)
    assert hand.run("sweep", slot=0, patience=60.0).tolist() == []
    # Its own place is never swept, nor one that has been left.
    assert hand.run("sweep", slot=0, patience=-1.0).tolist() == [2]
    assert hand.values("holders") == [10, 0, 0, 0]


def test_places_that_a_smaller_run_lacks_give_back_what_they_hold(hand: Hand) -> None:
    for slot in (0, 1, 2, 4095):
        hand.run("join", slot=slot, me=10 + slot)
        hand.claim(10 + slot)
    hand.run("vacate", slot=2)
    assert hand.values("holders") == [10, 11, 0, 0]
    assert not hand.run("beat", slot=2, me=12)


@pytest.mark.parametrize("hand", [{"shuffled": True, "epochs": 2, "seed": 5}], indirect=True)
def test_the_order_is_another_in_every_epoch(hand: Hand) -> None:
    orders = []
    for _ in range(2):
        found, _ = hand.claim(11, 4)
        orders.append([part for part, _ in found])
        hand.run("finish", parts=orders[-1], me=11)
    assert sorted(orders[0]) == sorted(orders[1]) == [0, 1, 2, 3]
    assert orders[0] != orders[1]


def test_ranges_cover_all_examples() -> None:
    assert ranges(25, 10) == [(0, 10), (10, 20), (20, 25)]
    with pytest.raises(UsageError, match="at least 1"):
        ranges(5, 0)


def test_parts_are_names_or_ranges(tmp_path: Any) -> None:
    assert checked_parts([tmp_path]) == (str(tmp_path),)
    assert checked_parts([(0, 5), [5, 7]]) == ((0, 5), (5, 7))
