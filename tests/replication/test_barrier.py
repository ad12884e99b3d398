"""The barrier as histories of messages, without TensorFlow."""

from __future__ import annotations

from psclust.replication.sync.barrier import Barrier, Kind, Message, Token


def _join(worker: int, incarnation: int) -> Message:
    return Message(Kind.JOIN, worker, incarnation, 0, 0)


def _gradient(worker: int, incarnation: int, round_: int, examples: int = 8) -> Message:
    return Message(Kind.GRADIENT, worker, incarnation, round_, examples)


def _leave(worker: int, incarnation: int) -> Message:
    return Message(Kind.LEAVE, worker, incarnation, 0, 0)


def _go(worker: int, incarnation: int, round_: int) -> Token:
    return Token(worker, Kind.GO, incarnation, round_)


def _two() -> Barrier:
    """Workers 0 and 1 with incarnations 10 and 11 hold tokens of round 100."""
    barrier = Barrier({0, 1}, 100)
    assert barrier.receive(_join(0, 10)) == (_go(0, 10, 100),)
    assert barrier.receive(_join(1, 11)) == (_go(1, 11, 100),)
    return barrier


def test_a_round_awaits_everybody_also_those_who_have_not_come_yet() -> None:
    barrier = Barrier({0, 1}, 100)
    barrier.receive(_join(0, 10))
    barrier.receive(_gradient(0, 10, 100))
    assert barrier.awaited == {1}


def test_when_all_have_delivered_the_round_is_complete() -> None:
    barrier = _two()
    barrier.receive(_gradient(0, 10, 100, examples=8))
    barrier.receive(_gradient(1, 11, 100, examples=3))
    assert not barrier.awaited
    assert barrier.contributions == {0: 8, 1: 3}
    assert barrier.advance() == [_go(0, 10, 101), _go(1, 11, 101)]
    assert barrier.awaited == {0, 1}


def test_a_second_gradient_in_a_round_does_not_stand_for_somebody_else() -> None:
    barrier = _two()
    barrier.receive(_gradient(0, 10, 100))
    barrier.receive(_gradient(0, 10, 100))
    assert barrier.awaited == {1}


def test_a_gradient_of_another_round_or_of_a_dead_worker_is_not_counted() -> None:
    barrier = _two()
    assert barrier.receive(_gradient(0, 10, 99)) == ()
    assert barrier.receive(_gradient(0, 12, 100)) == ()
    assert barrier.awaited == {0, 1}


def test_whoever_leaves_is_told_so_and_the_round_goes_on_without_it() -> None:
    barrier = _two()
    barrier.receive(_gradient(0, 10, 100))
    assert barrier.receive(_leave(1, 11)) == (Token(1, Kind.STOP, 11, 100),)
    assert not barrier.awaited
    assert barrier.advance() == [_go(0, 10, 101)]


def test_the_barrier_ends_when_all_have_left() -> None:
    barrier = _two()
    barrier.receive(_leave(0, 10))
    assert not barrier.ended
    barrier.receive(_leave(1, 11))
    assert barrier.ended


def test_a_gradient_delivered_before_the_last_one_left_is_still_applied() -> None:
    barrier = _two()
    barrier.receive(_gradient(0, 10, 100))
    barrier.receive(_leave(1, 11))
    barrier.receive(_leave(0, 10))
    assert not barrier.ended
    assert barrier.advance() == []
    assert barrier.ended


def test_a_worker_that_comes_back_with_a_round_open_is_unsure_until_the_sums_are_seen() -> None:
    barrier = _two()
    assert barrier.receive(_join(1, 21)) == ()
    assert (barrier.unsure, barrier.awaited) == ({1}, {0})
    barrier.receive(_gradient(0, 10, 100))
    assert barrier.clear() == [_go(1, 21, 100)]
    assert (barrier.unsure, barrier.awaited) == (set(), {1})


def test_a_worker_that_comes_back_after_it_delivered_waits_for_the_next_round() -> None:
    barrier = _two()
    barrier.receive(_gradient(1, 11, 100))
    assert barrier.receive(_join(1, 21)) == ()
    assert barrier.awaited == {0}
    barrier.receive(_gradient(0, 10, 100))
    assert barrier.advance() == [_go(0, 10, 101), _go(1, 21, 101)]


def test_a_void_round_is_computed_again_by_all_under_a_number_two_higher() -> None:
    barrier = _two()
    barrier.receive(_gradient(0, 10, 100))
    barrier.receive(_join(1, 21))
    assert barrier.repeat() == [_go(0, 10, 102), _go(1, 21, 102)]
    assert barrier.contributions == {}
    assert barrier.awaited == {0, 1}
    assert not barrier.unsure


def test_an_introduction_heard_twice_gives_one_token() -> None:
    barrier = _two()
    assert barrier.receive(_join(1, 11)) == ()
    assert barrier.awaited == {0, 1}


def test_a_worker_that_had_left_may_come_again() -> None:
    barrier = _two()
    barrier.receive(_leave(1, 11))
    assert barrier.receive(_join(1, 21)) == (_go(1, 21, 100),)
    assert barrier.awaited == {0, 1}


def test_when_the_training_is_over_tokens_say_stop() -> None:
    barrier = _two()
    barrier.receive(_gradient(0, 10, 100))
    barrier.receive(_gradient(1, 11, 100))
    barrier.stopping = True
    assert [token.kind for token in barrier.advance()] == [Kind.STOP, Kind.STOP]
    assert barrier.receive(_join(2, 12)) == (Token(2, Kind.STOP, 12, 101),)
