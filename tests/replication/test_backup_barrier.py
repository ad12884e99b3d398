"""The barrier with backup workers as histories of messages and the actions they lead to, without
TensorFlow."""

from __future__ import annotations

from typing import Any

from barrier_histories import gradient, join, leave

from psclust.replication.sync.actions import Clear, Collect, Discard, Left, Reset, Send
from psclust.replication.sync.backup_barrier import BackupBarrier
from psclust.replication.sync.messages import Kind, Token, Update


def _three(needed: int = 2, **options: Any) -> BackupBarrier:
    """Workers 0, 1 and 2 with incarnations 10, 11 and 12 hold tokens of round 100, at step 0."""
    barrier = BackupBarrier(3, 100, needed, **options)
    for worker in range(3):
        assert barrier.receive(join(worker, 10 + worker)) == [
            Send({worker: Token(Kind.GO, 10 + worker, 100, 0)})
        ]
    return barrier


def _first_two(barrier: BackupBarrier) -> None:
    """Workers 0 and 1 deliver, with worker 2 still at work."""
    for worker in (0, 1):
        delivered = gradient(worker, 10 + worker, barrier.round)
        assert barrier.receive(delivered) == [Collect(worker, barrier.round)]
    assert not barrier.awaited


def _update(barrier: BackupBarrier) -> Update:
    (update,) = barrier.close_round()
    assert isinstance(update, Update)
    return update


def test_it_opens_by_clearing_the_accumulators_of_every_worker() -> None:
    call = Token(Kind.RESYNC, 0, 100, 0)
    assert BackupBarrier(2, 100, 1).open() == [
        Reset(100),
        Clear(0, 100),
        Clear(1, 100),
        Send({0: call, 1: call}),
    ]


def test_a_round_is_complete_when_enough_have_delivered() -> None:
    barrier = _three()
    barrier.receive(gradient(0, 10, 100, examples=8))
    assert (barrier.awaited, barrier.wanted) == ({1, 2}, 1)
    barrier.receive(gradient(2, 12, 100, examples=3))
    assert not barrier.awaited
    assert (_update(barrier).examples, barrier.wanted) == (11, 1)


def test_only_workers_that_have_delivered_get_a_token_of_the_next_round() -> None:
    barrier = _three()
    _first_two(barrier)
    tokens = {0: Token(Kind.GO, 10, 101, 1), 1: Token(Kind.GO, 11, 101, 1)}
    assert barrier.close_round() == [Update(100, 1, 16, {0: 1, 1: 1}, tokens)]
    assert barrier.awaited == {0, 1, 2}


def test_a_late_gradient_is_thrown_away_and_its_worker_goes_on_in_the_current_round() -> None:
    barrier = _three()
    for _ in range(2):
        _first_two(barrier)
        barrier.close_round()
    assert barrier.receive(gradient(2, 12, 100)) == [
        Discard(2),
        Send({2: Token(Kind.LATE, 12, 102, 2)}),
    ]
    assert barrier.awaited == {0, 1, 2}
    assert barrier.receive(gradient(2, 12, 102)) == [Collect(2, 102)]
    barrier.receive(gradient(0, 10, 102))
    # The dropped batch is used up with this update.
    assert _update(barrier).batches == {0: 1, 2: 2}


def test_a_gradient_counts_once() -> None:
    barrier = _three()
    barrier.receive(gradient(0, 10, 100))
    assert barrier.receive(gradient(0, 10, 100)) == []
    assert barrier.awaited == {1, 2}


def test_a_gradient_more_than_needed_counts_if_it_arrives_before_the_step_is_made() -> None:
    barrier = _three()
    _first_two(barrier)
    assert barrier.receive(gradient(2, 12, 100)) == [Collect(2, 100)]
    assert _update(barrier).examples == 24


def test_when_workers_have_left_those_that_remain_are_all_awaited() -> None:
    barrier = _three(needed=2)
    assert barrier.receive(leave(2, 12)) == [Left(2), Send({2: Token(Kind.STOP, 12, 100, 0)})]
    barrier.receive(gradient(0, 10, 100))
    assert barrier.awaited == {1}
    barrier.receive(leave(1, 11))
    assert not barrier.awaited
    assert _update(barrier).tokens == {0: Token(Kind.GO, 10, 101, 1)}
    assert barrier.awaited == {0}
    barrier.receive(leave(0, 10))
    assert barrier.ended


def test_no_round_waits_for_a_worker_that_never_came() -> None:
    barrier = BackupBarrier(3, 100, 2)
    for worker in (0, 1):
        barrier.receive(join(worker, 10 + worker))
    _first_two(barrier)


def test_the_successor_of_a_lost_worker_gets_a_round_the_lost_one_never_had() -> None:
    barrier = _three()
    assert barrier.receive(join(2, 99)) == [Clear(2, 102), Send({2: Token(Kind.GO, 99, 102, 0)})]
    # The lost worker's last message counts for nothing; the tokens of the others are still good.
    assert barrier.receive(gradient(2, 12, 100)) == []
    assert barrier.receive(gradient(2, 99, 100)) == []
    assert barrier.receive(gradient(0, 10, 100)) == [Collect(0, 102)]
    assert barrier.receive(gradient(2, 99, 102)) == [Collect(2, 102)]
    assert _update(barrier).tokens == {0: Token(Kind.GO, 10, 103, 1), 2: Token(Kind.GO, 99, 103, 1)}
    assert barrier.receive(gradient(1, 11, 100)) == [
        Discard(1),
        Send({1: Token(Kind.LATE, 11, 103, 1)}),
    ]


def test_the_successor_of_a_late_worker_reads_the_dropped_batches_again() -> None:
    barrier = _three()
    _first_two(barrier)
    barrier.close_round()
    barrier.receive(gradient(2, 12, 100))
    barrier.receive(join(2, 99))
    for worker in (0, 1):
        barrier.receive(gradient(worker, 10 + worker, 101))
    assert _update(barrier).batches == {0: 1, 1: 1}


def test_the_successor_of_a_worker_that_had_delivered_waits_for_the_next_round() -> None:
    barrier = _three()
    barrier.receive(gradient(1, 11, 100))
    assert barrier.receive(join(1, 99)) == []
    barrier.receive(gradient(0, 10, 100))
    assert _update(barrier).tokens == {0: Token(Kind.GO, 10, 101, 1), 1: Token(Kind.GO, 99, 101, 1)}


def test_when_the_training_is_over_late_workers_get_a_stop() -> None:
    barrier = _three(max_steps=1)
    _first_two(barrier)
    assert {token.kind for token in _update(barrier).tokens.values()} == {Kind.STOP}
    for worker in (0, 1):
        barrier.receive(leave(worker, 10 + worker))
    assert barrier.awaited == {2}
    stop = Send({2: Token(Kind.STOP, 12, 101, 1)})
    assert barrier.receive(gradient(2, 12, 100)) == [Discard(2), stop]
    barrier.receive(leave(2, 12))
    assert barrier.ended


def test_a_successor_that_comes_when_the_training_is_over_gets_a_stop() -> None:
    barrier = _three(max_steps=1)
    _first_two(barrier)
    barrier.close_round()
    assert barrier.receive(join(2, 99))[-1] == Send({2: Token(Kind.STOP, 99, 103, 1)})
