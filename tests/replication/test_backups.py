"""The barrier with backup workers as histories of messages, without TensorFlow."""

from __future__ import annotations

from psclust.replication.sync.backups import BackupBarrier
from psclust.replication.sync.barrier import Kind, Message, Token


def _join(worker: int, incarnation: int) -> Message:
    return Message(Kind.JOIN, worker, incarnation, 0, 0)


def _gradient(worker: int, round_: int, incarnation: int | None = None, examples: int = 8) -> Message:
    return Message(Kind.GRADIENT, worker, 10 + worker if incarnation is None else incarnation, round_, examples)


def _leave(worker: int) -> Message:
    return Message(Kind.LEAVE, worker, 10 + worker, 0, 0)


def _three(needed: int = 2) -> BackupBarrier:
    """Workers 0, 1 and 2 with incarnations 10, 11 and 12 hold tokens of round 100."""
    barrier = BackupBarrier({0, 1, 2}, 100, needed)
    for worker in range(3):
        assert barrier.receive(_join(worker, 10 + worker)) == (Token(worker, Kind.GO, 10 + worker, 100),)
    return barrier


def _first_two(barrier: BackupBarrier) -> None:
    """Workers 0 and 1 make a step without worker 2."""
    for worker in (0, 1):
        assert barrier.receive(_gradient(worker, barrier.round)) == ()
    assert not barrier.awaited


def test_a_round_is_complete_when_enough_have_delivered() -> None:
    barrier = _three()
    barrier.receive(_gradient(0, 100, examples=8))
    assert barrier.awaited == {1, 2}
    barrier.receive(_gradient(2, 100, examples=3))
    assert not barrier.awaited
    assert barrier.contributions == {0: 8, 2: 3}


def test_only_who_has_answered_gets_a_token_of_the_next_round() -> None:
    barrier = _three()
    _first_two(barrier)
    assert barrier.advance() == [Token(0, Kind.GO, 10, 101), Token(1, Kind.GO, 11, 101)]
    assert barrier.awaited == {0, 1, 2}


def test_a_late_gradient_is_answered_with_a_token_of_the_round_that_is_being_made_and_does_not_count() -> None:
    barrier = _three()
    for _ in range(2):
        _first_two(barrier)
        barrier.advance()
    assert barrier.receive(_gradient(2, 100)) == (Token(2, Kind.LATE, 12, 102),)
    assert barrier.contributions == {}
    assert barrier.receive(_gradient(2, 102)) == ()
    assert barrier.contributions == {2: 8}


def test_a_gradient_counts_once() -> None:
    barrier = _three()
    barrier.receive(_gradient(0, 100))
    assert barrier.receive(_gradient(0, 100)) == ()
    assert barrier.awaited == {1, 2}


def test_a_gradient_more_than_needed_counts_if_it_arrives_before_the_step_is_made() -> None:
    barrier = _three()
    _first_two(barrier)
    assert barrier.receive(_gradient(2, 100)) == ()
    assert barrier.contributions == {0: 8, 1: 8, 2: 8}


def test_when_workers_have_left_those_who_remain_are_all_awaited() -> None:
    barrier = _three(needed=2)
    barrier.receive(_leave(2))
    barrier.receive(_gradient(0, 100))
    assert barrier.awaited == {1}
    barrier.receive(_leave(1))
    assert not barrier.awaited
    assert barrier.advance() == [Token(0, Kind.GO, 10, 101)]
    assert barrier.awaited == {0}
    barrier.receive(_leave(0))
    assert barrier.ended


def test_nobody_waits_for_a_worker_that_never_came() -> None:
    barrier = BackupBarrier({0, 1, 2}, 100, 2)
    for worker in (0, 1):
        barrier.receive(_join(worker, 10 + worker))
    _first_two(barrier)


def test_the_successor_of_a_lost_worker_gets_a_number_its_former_self_never_had() -> None:
    barrier = _three()
    assert barrier.receive(_join(2, 99)) == (Token(2, Kind.GO, 99, 102),)
    # What the lost one said last counts for nothing, what the others hold is still good.
    assert barrier.receive(_gradient(2, 100)) == ()
    assert barrier.receive(_gradient(2, 100, incarnation=99)) == ()
    barrier.receive(_gradient(0, 100))
    barrier.receive(_gradient(2, 102, incarnation=99))
    assert barrier.contributions == {0: 8, 2: 8}
    assert barrier.advance() == [Token(0, Kind.GO, 10, 103), Token(2, Kind.GO, 99, 103)]
    assert barrier.receive(_gradient(1, 100)) == (Token(1, Kind.LATE, 11, 103),)


def test_the_successor_of_a_worker_that_had_delivered_waits_for_the_next_round() -> None:
    barrier = _three()
    barrier.receive(_gradient(1, 100))
    assert barrier.receive(_join(1, 99)) == ()
    barrier.receive(_gradient(0, 100))
    assert barrier.advance() == [Token(0, Kind.GO, 10, 101), Token(1, Kind.GO, 99, 101)]


def test_when_the_training_is_over_the_late_are_told_to_stop() -> None:
    barrier = _three()
    _first_two(barrier)
    barrier.stopping = True
    assert [token.kind for token in barrier.advance()] == [Kind.STOP, Kind.STOP]
    for worker in (0, 1):
        barrier.receive(_leave(worker))
    assert barrier.awaited == {2}
    assert barrier.receive(_gradient(2, 100)) == (Token(2, Kind.STOP, 12, 101),)
    barrier.receive(_leave(2))
    assert barrier.ended


def test_a_successor_that_comes_when_all_is_over_is_told_to_stop() -> None:
    barrier = _three()
    _first_two(barrier)
    barrier.stopping = True
    barrier.advance()
    assert [token.kind for token in barrier.receive(_join(2, 99))] == [Kind.STOP]
