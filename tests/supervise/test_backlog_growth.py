"""When the connections of a task hold more and more, and what is told of it when it dies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from psclust.supervise.memory_growth import MemoryGrowth
from psclust.supervise.reading import Reading
from psclust.transport.task_usage import Usage

KB, GB = 1000, 10**9


def reading(unread: int | None, unsent: int | None = 0, attempt: int = 1) -> Reading:
    usage = Usage(memory=11 * GB, left=GB, unread=unread, unsent=unsent)
    return Reading("ps:0", "server", "a", "running", attempt, usage)


def told(
    backlog: Callable[[int], int | None], *, every_s: float = 5.0, looks: int = 30
) -> list[str]:
    """The warnings, with these bytes at each look."""
    growth = MemoryGrowth()
    return [
        text
        for look in range(looks)
        for text in growth.take([reading(backlog(look))], 1000.0 + every_s * look)
    ]


def test_a_backlog_that_only_grows_is_told_once() -> None:
    assert told(lambda look: 10 * KB * look) == [
        "ps:0: it does not keep up with what is sent to it: 120.0 kB have arrived that it has not "
        "read, 120.0 kB more than 60 s ago"
    ]


def test_what_its_peers_do_not_take_is_told_too() -> None:
    growth, found = MemoryGrowth(), []
    for look in range(20):
        found += growth.take([reading(0, 1000 * KB * look)], 5.0 * look)
    assert found == [
        "ps:0: its peers do not keep up with what it sends: 12.0 MB wait to be sent, 12.0 MB more "
        "than 60 s ago"
    ]


@pytest.mark.parametrize(
    ("backlog", "every_s"),
    [
        (lambda look: None, 5.0),
        (lambda look: 0, 5.0),
        (lambda look: 900 * KB, 5.0),  # as much all the time
        (lambda look: 900 * KB - look, 5.0),
        (lambda look: 100 * KB * (look % 11), 5.0),  # read each minute
        (lambda look: look * KB, 5.0),  # little
        (lambda look: look * 100 * KB, 1.0),  # for 30 s
        (lambda look: look * 100 * KB, 0.1),
    ],
)
def test_a_task_that_keeps_up_is_not_told(
    backlog: Callable[[int], int | None], every_s: float
) -> None:
    assert told(backlog, every_s=every_s) == []


def test_many_looks_say_the_same_as_some() -> None:
    (text,) = told(lambda look: KB * look, every_s=0.5, looks=200)
    assert text.endswith("120.0 kB more than 60 s ago")


def test_each_attempt_has_a_backlog_of_its_own() -> None:
    growth = MemoryGrowth()
    found = [
        text
        for look in range(24)
        for text in growth.take([reading(10 * KB * look, 0, 1 + look // 8)], 5.0 * look)
    ]
    assert found == []


def test_a_kill_for_memory_is_told_with_the_backlog() -> None:
    growth = MemoryGrowth()
    for look in range(14):
        list(growth.take([reading(10 * KB * look)], 5.0 * look))
    # A look at the moment of its end finds neither memory nor connections.
    growth.take([Reading("ps:0", "server", "a", "running", 1, Usage(unread=0, unsent=0))], 66.0)
    said = growth.describe_death("ps:0", 1, -9, "the kernel says so", 67.0)
    assert said is not None
    assert said.endswith(
        "; 130.0 kB had arrived that it had not read, 130.0 kB more than 65 s earlier"
    )
    again = MemoryGrowth()
    again.take([reading(500 * KB)], 0.0)
    said = again.describe_death("ps:0", 1, -9, "the kernel says so", 1.0)
    assert said is not None
    assert "arrived" not in said
