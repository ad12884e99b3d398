"""A chief's rounds are greater than those of the chief before, whatever the clock says."""

from __future__ import annotations

import time

from psclust.replication.sync.first_round import first_round
from psclust.testing.wait import wait_until


def test_a_restarted_chief_begins_with_a_greater_number() -> None:
    earlier, now = (first_round({"PSCLUST_ATTEMPT": str(attempt)}) for attempt in (1, 2))
    assert now - earlier > 1 << 47  # more rounds than any chief lives to count
    assert first_round({"PSCLUST_ATTEMPT": "30000"}) < 1 << 63


def test_the_same_chief_begins_again_with_a_greater_number() -> None:
    environ = {"PSCLUST_ATTEMPT": "3"}
    first = first_round(environ)
    wait_until(lambda: first_round(environ) > first, what="a greater number")


def test_without_a_launcher_the_clock_decides() -> None:
    before = time.time_ns() // 1000
    assert before <= first_round({}) <= time.time_ns() // 1000
