"""The barrier with streamed rounds as histories of messages and the actions they lead to, without
TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest
from barrier_histories import DIED, go, gradient, join, leave, stop

from psclust.replication.sync.actions import Fill, Left, Reset, RollBack, Send, Stream
from psclust.replication.sync.messages import Kind, Message, Token, Update
from psclust.replication.sync.stream_barrier import StreamingBarrier


def two(**options: Any) -> StreamingBarrier:
    """Workers 0 and 1, incarnations 10 and 11, with tokens of round 100, at step 7."""
    barrier = StreamingBarrier(2, 100, step=7, **options)
    barrier.open()
    assert barrier.receive(join(0, 10)) == [Send({0: go(10, 100)})]
    assert barrier.receive(join(1, 11)) == [Send({1: go(11, 100)})]
    return barrier


def test_it_opens_with_a_stream_for_all_it_expects() -> None:
    call = Token(Kind.RESYNC, 0, 100, 7)
    opened = StreamingBarrier(3, 100, step=7, ended=[1]).open()
    assert opened == [
        Reset(100),
        Send({0: call, 1: call, 2: call}),
        Stream(100, (0, 2)),
    ]


def test_an_update_is_followed_by_the_next_stream() -> None:
    barrier = two()
    barrier.receive(gradient(0, 10, 100))
    barrier.receive(gradient(1, 11, 100, examples=3))
    update = Update(100, 8, 11, {0: 1, 1: 1}, {0: go(10, 101, 8), 1: go(11, 101, 8)})
    assert barrier.close_round() == [update, Stream(101, (0, 1))]
    assert barrier.awaited == {0, 1}


def test_the_place_of_a_worker_that_leaves_is_filled() -> None:
    barrier = two()
    barrier.receive(gradient(0, 10, 100))
    assert barrier.receive(leave(1, 11)) == [Left(1), Send({1: stop(11, 100)})]
    update = Update(100, 8, 8, {0: 1}, {0: go(10, 101, 8)})
    assert barrier.close_round() == [Fill(100, (1,)), update, Stream(101, (0,))]


def test_a_worker_that_left_in_a_round_and_comes_again_gets_its_place_back() -> None:
    barrier = two()
    barrier.receive(leave(1, 11))
    assert barrier.receive(join(1, 21)) == [Send({1: go(21, 100)})]
    barrier.receive(gradient(0, 10, 100))
    barrier.receive(gradient(1, 21, 100))
    assert isinstance(barrier.close_round()[0], Update)


def test_a_worker_that_is_not_expected_waits_for_the_next_round() -> None:
    barrier = StreamingBarrier(2, 100, step=7, ended=[1])
    barrier.open()
    barrier.receive(join(0, 10))
    assert barrier.receive(join(1, 11)) == []
    assert barrier.awaited == {0}
    barrier.receive(gradient(0, 10, 100))
    update = Update(100, 8, 8, {0: 1}, {0: go(10, 101, 8), 1: go(11, 101, 8)})
    assert barrier.close_round() == [update, Stream(101, (0, 1))]
    assert barrier.awaited == {0, 1}


def test_it_goes_on_with_a_worker_that_waits_when_all_others_have_left() -> None:
    barrier = StreamingBarrier(2, 100, step=7, ended=[1])
    barrier.open()
    barrier.receive(join(0, 10))
    barrier.receive(join(1, 11))
    barrier.receive(leave(0, 10))
    assert not barrier.ended
    assert barrier.close_round() == [
        RollBack(100, (0,)),
        Reset(102),
        Send({1: go(11, 102)}),
        Stream(102, (1,)),
    ]


def test_the_first_that_joins_where_nobody_is_expected_begins_a_stream() -> None:
    barrier = StreamingBarrier(2, 100, step=7, ended=[0, 1])
    assert not any(isinstance(action, Stream) for action in barrier.open())
    assert barrier.receive(join(1, 11)) == [Send({1: go(11, 100)}), Stream(100, (1,))]


@pytest.mark.parametrize(
    ("other", "tokens"),
    [
        (gradient(0, 10, 100), {0: go(10, 102), 1: go(21, 102)}),
        # Then nobody has delivered.
        (leave(0, 10), {1: go(21, 102)}),
    ],
)
def test_a_round_in_which_a_worker_died_is_rolled_back_when_no_other_is_awaited(
    other: Message, tokens: dict[int, Token]
) -> None:
    barrier = two()
    barrier.receive(join(1, 21))
    assert barrier.awaited == {0}
    barrier.receive(other)
    again = [Reset(102), Send(tokens), Stream(102, tuple(tokens))]
    assert barrier.close_round() == [DIED, RollBack(100, (0, 1)), *again]


def test_a_step_that_workers_were_computing_when_asked_to_stop_is_rolled_back() -> None:
    barrier = two()
    barrier.receive(gradient(0, 10, 100))
    barrier.stop()
    barrier.receive(leave(1, 11))
    assert barrier.close_round() == [
        RollBack(100, (0, 1)),
        Reset(102),
        Send({0: stop(10, 102)}),
    ]
    barrier.receive(leave(0, 10))
    assert barrier.ended


def test_it_does_not_end_before_its_last_stream_has() -> None:
    barrier = two()
    barrier.receive(leave(0, 10))
    barrier.receive(leave(1, 11))
    assert not barrier.ended
    assert barrier.close_round() == [RollBack(100, (0, 1)), Reset(102), Send({})]
    assert barrier.ended


def test_no_stream_follows_the_last_step() -> None:
    barrier = two(max_steps=8)
    barrier.receive(gradient(0, 10, 100))
    barrier.receive(gradient(1, 11, 100))
    assert barrier.close_round() == [
        Update(100, 8, 16, {0: 1, 1: 1}, {0: stop(10, 101, 8), 1: stop(11, 101, 8)})
    ]
    barrier.receive(leave(0, 10))
    barrier.receive(leave(1, 11))
    assert barrier.ended


def test_at_its_last_step_it_begins_none() -> None:
    barrier = StreamingBarrier(1, 100, step=7, max_steps=7)
    assert not any(isinstance(action, Stream) for action in barrier.open())
    assert barrier.receive(join(0, 10)) == [Send({0: stop(10, 100)})]


def test_it_stops_when_no_worker_has_data_any_more() -> None:
    barrier = two()
    for worker in (0, 1):
        barrier.receive(gradient(worker, 10 + worker, 100, examples=0))
    tokens = Send({0: stop(10, 102), 1: stop(11, 102)})
    assert barrier.close_round() == [RollBack(100, (0, 1)), Reset(102), tokens]
