"""The same work for many at once: the cap holds, nobody is lost, and nothing is waited for that
does not end."""

from __future__ import annotations

import threading
import time

import pytest

from psclust.errors import PsclustError, StartError
from psclust.reach.fan_out import all_or_error, fan_out


def test_no_more_work_at_once_than_allowed_and_all_of_it_is_done() -> None:
    lock, running, most = threading.Lock(), 0, 0
    together = threading.Barrier(3)

    def work(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(300)  # passes only if three are at it at once
        with lock:
            running -= 1
        return item * item

    assert dict(fan_out(range(9), work, parallel=3)) == {item: item * item for item in range(9)}
    assert most == 3


def test_failures_stand_beside_results_and_are_told_together() -> None:
    def work(item: str) -> str:
        if item in "bd":
            raise StartError(f"{item}: no")
        return item.upper()

    outcomes = dict(fan_out("abcd", work, parallel=2))
    assert {item for item, outcome in outcomes.items() if isinstance(outcome, PsclustError)} == {
        "b",
        "d",
    }
    with pytest.raises(StartError) as caught:
        all_or_error(dict(sorted(outcomes.items())))
    assert str(caught.value) == "b: no\nd: no"
    assert all_or_error({"a": "A"}) == {"a": "A"}


def test_a_mistake_of_our_own_is_not_taken_for_a_failure() -> None:
    with pytest.raises(ZeroDivisionError):
        dict(fan_out([0], lambda item: 1 // item, parallel=1))


def test_what_never_ends_counts_as_failed_when_the_time_is_over() -> None:
    never = threading.Event()
    outcomes = dict(
        fan_out(
            ["quick", "slow"],
            lambda item: item == "quick" or never.wait(),
            parallel=2,
            deadline=time.monotonic() + 0.3,
        )
    )
    never.set()
    assert outcomes["quick"] is True
    assert isinstance(outcomes["slow"], StartError)


def test_nothing_more_is_begun_once_nobody_listens() -> None:
    begun = []
    go = threading.Event()

    def work(item: int) -> None:
        begun.append(item)
        if item:
            go.wait(300)

    for _ in fan_out(range(100), work, parallel=1):
        break
    go.set()
    assert len(begun) <= 2
