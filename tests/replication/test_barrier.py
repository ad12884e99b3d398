"""The barrier as histories of messages and the actions they lead to, without TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest
from barrier_histories import DIED, go, gradient, join, leave, stop

from psclust.replication.sync.actions import Left, Release, Reset, Send
from psclust.replication.sync.barrier import Barrier
from psclust.replication.sync.messages import Kind, Message, Token, Update


def two(**options: Any) -> Barrier:
    """Workers 0 and 1, incarnations 10 and 11, with tokens of round 100, at step 7."""
    barrier = Barrier(2, 100, step=7, **options)
    assert barrier.receive(join(0, 10)) == [Send({0: go(10, 100)})]
    assert barrier.receive(join(1, 11)) == [Send({1: go(11, 100)})]
    return barrier


@pytest.mark.parametrize(
    ("options", "reset"),
    [
        ({}, Reset(100)),
        ({"fresh": False}, Reset(100)),
        ({"all_reduce": True}, Reset(100)),
        ({"all_reduce": True, "fresh": False}, Reset(100, blocked=True)),
    ],
)
def test_it_opens_by_shutting_out_what_was_before_and_calling_all_even_those_that_ended(
    options: Any, reset: Reset
) -> None:
    call = Token(Kind.RESYNC, 0, 100, 7)
    assert Barrier(2, 100, step=7, ended=[1], **options).open() == [
        reset,
        Send({0: call, 1: call}),
    ]


def test_a_round_awaits_every_worker_also_before_it_has_joined_but_none_that_ended() -> None:
    barrier = Barrier(3, 100, ended=[1])
    barrier.receive(join(0, 10))
    barrier.receive(gradient(0, 10, 100))
    assert barrier.awaited == {2}


def test_when_all_have_delivered_the_mean_is_applied_and_all_go_on() -> None:
    barrier = two()
    barrier.receive(gradient(0, 10, 100, examples=8))
    assert barrier.receive(gradient(1, 11, 100, examples=3)) == []
    assert not barrier.awaited
    update = Update(100, 8, 11, {0: 1, 1: 1}, {0: go(10, 101, 8), 1: go(11, 101, 8)})
    assert barrier.close_round() == [update]
    assert barrier.awaited == {0, 1}


def test_a_worker_without_examples_has_used_up_no_batch() -> None:
    barrier = two()
    barrier.receive(gradient(0, 10, 100))
    barrier.receive(gradient(1, 11, 100, examples=0))
    (update,) = barrier.close_round()
    assert isinstance(update, Update)
    assert update.batches == {0: 1}


@pytest.mark.parametrize(
    "message",
    [gradient(0, 10, 100), gradient(1, 11, 99), gradient(1, 12, 100), leave(1, 12), join(0, 10)],
    ids=[
        "second of a worker",
        "of another round",
        "of a dead worker",
        "left, of a dead worker",
        "introduction received twice",
    ],
)
def test_what_does_not_count(message: Message) -> None:
    barrier = two()
    barrier.receive(gradient(0, 10, 100))
    assert barrier.receive(message) == []
    assert barrier.awaited == {1}


def test_a_worker_that_leaves_gets_its_stop_and_the_round_goes_on_without_it() -> None:
    barrier = two()
    barrier.receive(gradient(0, 10, 100))
    assert barrier.receive(leave(1, 11)) == [Left(1), Send({1: stop(11, 100)})]
    assert not barrier.awaited
    assert barrier.close_round() == [Update(100, 8, 8, {0: 1}, {0: go(10, 101, 8)})]


def test_it_ends_when_all_have_left() -> None:
    barrier = two()
    barrier.receive(leave(0, 10))
    assert not barrier.ended
    barrier.receive(leave(1, 11))
    assert barrier.ended
    assert barrier.close_round() == []


def test_a_gradient_delivered_before_the_last_worker_left_is_still_applied() -> None:
    barrier = two()
    barrier.receive(gradient(0, 10, 100))
    barrier.receive(leave(1, 11))
    barrier.receive(leave(0, 10))
    assert not barrier.ended
    assert barrier.close_round() == [Update(100, 8, 8, {0: 1}, {})]
    assert barrier.ended


def test_a_round_in_which_a_worker_died_is_void_when_all_others_have_delivered() -> None:
    barrier = two()
    assert barrier.receive(join(1, 21)) == []
    assert barrier.awaited == {0}
    assert barrier.unblock() == []
    barrier.receive(gradient(0, 10, 100))
    # Two higher: one round is for emptying the accumulators.
    assert barrier.close_round() == [DIED, Reset(102), Send({0: go(10, 102), 1: go(21, 102)})]
    assert barrier.awaited == {0, 1}


def test_a_worker_that_comes_back_after_it_delivered_waits_for_the_next_round() -> None:
    barrier = two()
    barrier.receive(gradient(1, 11, 100))
    assert barrier.receive(join(1, 21)) == []
    assert barrier.awaited == {0}
    barrier.receive(gradient(0, 10, 100))
    assert barrier.close_round() == [
        Update(100, 8, 16, {0: 1, 1: 1}, {0: go(10, 101, 8), 1: go(21, 101, 8)})
    ]


def test_a_worker_that_had_left_may_come_again() -> None:
    barrier = two()
    barrier.receive(leave(1, 11))
    assert barrier.receive(join(1, 21)) == [Send({1: go(21, 100)})]
    assert barrier.awaited == {0, 1}


def test_the_tokens_of_the_last_step_are_stops() -> None:
    barrier = two(max_steps=8)
    barrier.receive(gradient(0, 10, 100))
    barrier.receive(gradient(1, 11, 100))
    assert barrier.close_round() == [
        Update(100, 8, 16, {0: 1, 1: 1}, {0: stop(10, 101, 8), 1: stop(11, 101, 8)})
    ]


def test_at_its_last_step_it_lets_no_worker_begin() -> None:
    barrier = Barrier(1, 100, step=7, max_steps=7)
    assert barrier.receive(join(0, 10)) == [Send({0: stop(10, 100)})]


def test_a_step_that_workers_were_computing_when_asked_to_stop_is_not_made() -> None:
    barrier = two()
    barrier.receive(gradient(0, 10, 100))
    barrier.stop()
    barrier.receive(gradient(1, 11, 100))
    assert barrier.close_round() == [Reset(102), Send({0: stop(10, 102), 1: stop(11, 102)})]


def test_it_stops_when_no_worker_has_data_any_more() -> None:
    barrier = two()
    for worker in (0, 1):
        barrier.receive(gradient(worker, 10 + worker, 100, examples=0))
    assert barrier.close_round() == [Reset(100), Send({0: stop(10, 101), 1: stop(11, 101)})]


def test_replicas_in_an_all_reduce_are_released_when_one_is_lost_and_the_round_is_void() -> None:
    barrier = two(all_reduce=True)
    assert barrier.wanted == 1
    barrier.receive(join(1, 21))
    assert barrier.unblock() == [Release(100)]
    assert barrier.unblock() == []
    barrier.receive(gradient(0, 10, 100))
    assert barrier.close_round() == [DIED, Reset(102), Send({0: go(10, 102), 1: go(21, 102)})]
    for worker, incarnation in ((0, 10), (1, 21)):
        barrier.receive(gradient(worker, incarnation, 102))
    assert isinstance(barrier.close_round()[0], Update)


def test_replicas_in_an_all_reduce_are_released_when_one_leaves() -> None:
    barrier = two(all_reduce=True)
    assert barrier.receive(leave(1, 11)) == [Left(1), Release(100), Send({1: stop(11, 100)})]
    barrier.receive(gradient(0, 10, 100))
    assert barrier.close_round() == [Reset(102), Send({0: go(10, 102)})]


def test_the_first_round_after_another_barrier_with_an_all_reduce_is_void() -> None:
    barrier = two(all_reduce=True, fresh=False)
    for worker in (0, 1):
        barrier.receive(gradient(worker, 10 + worker, 100))
    assert barrier.close_round() == [Reset(102), Send({0: go(10, 102), 1: go(11, 102)})]
