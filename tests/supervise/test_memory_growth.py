"""When memory is about to run out, and what is told of a task that was killed when it had."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from psclust.supervise.memory_growth import MemoryGrowth, Point, lasts_s
from psclust.supervise.reading import Reading
from psclust.transport.task_usage import Usage

MB, GB = 10**6, 10**9


def points(memory: Callable[[float], float], left: int | None = GB, count: int = 31) -> list[Point]:
    """Every ten seconds; the host loses what the task takes, and has `left` at the end."""
    end = int(memory(10.0 * (count - 1)))
    return [
        Point(at, used, None if left is None else left + end - used)
        for at, used in ((10.0 * n, int(memory(10.0 * n))) for n in range(count))
    ]


@pytest.mark.parametrize(
    ("watched", "expected"),
    [
        (points(lambda s: GB + 2 * MB * s), 500.0),
        (points(lambda s: GB + 100 * MB * (s // 50)), 500.0),  # by steps
        (points(lambda s: GB + 2 * MB * s + 400 * MB * (s == 150)), 500.0),  # with a peak
        (points(lambda s: GB), None),
        (points(lambda s: GB * (1 + (s > 20))), None),  # one step: a model, say
        (points(lambda s: GB + 2 * MB * min(s, 140)), None),  # grows no more
        (points(lambda s: 30 * GB + 2 * MB * s), None),  # hardly
        (points(lambda s: GB - MB * s), None),
        (points(lambda s: GB + 2 * MB * s, count=15), None),  # for too short a time
        (points(lambda s: GB + 2 * MB * s, left=None), None),
        ([], None),
    ],
)
def test_the_time_that_memory_lasts(watched: list[Point], expected: float | None) -> None:
    found = lasts_s(watched)
    assert found == (None if expected is None else pytest.approx(expected, rel=0.2))


def test_what_others_take_counts_too() -> None:
    watched = [Point(10.0 * n, GB + 10 * MB * n, GB + 40 * MB * (30 - n)) for n in range(31)]
    assert lasts_s(watched) == pytest.approx(250.0)


def reading(memory: int, left: int | None = None, attempt: int = 1) -> Reading:
    return Reading("ps:0", "server", "a", "running", attempt, Usage(memory=memory, left=left))


MODEL = {"ps": [{"variables": 2, "bytes": 4 * GB, "largest": "embeddings"}]}


def test_a_growing_attempt_is_told_once() -> None:
    growth, told = MemoryGrowth(), []
    growth.know_model(MODEL)
    for attempt in (1, 2):
        for second in range(400):
            taken = 20 * MB * second
            look = reading(GB + taken, 10 * GB - taken, attempt)
            told += growth.take([look], 1000.0 * attempt + second)
    text = (
        "ps:0: its memory grows: 4.6 GB, 3.6 GB more than 3 minutes ago; a has 6.4 GB left, "
        "enough for about 5 minutes; its variables have 4.0 GB without optimizer slots, "
        "embeddings the most"
    )
    assert told == [text, text]


def death(
    growth: MemoryGrowth, evidence: str | None = None, code: int = -9, attempt: int = 1
) -> str | None:
    return growth.describe_death("ps:0", attempt, code, evidence, 1070.5)


def test_a_task_that_the_kernel_killed_is_told_with_its_memory() -> None:
    growth = MemoryGrowth()
    assert death(growth) is None
    assert death(growth, "it says so") == (
        "was killed by the kernel, which was out of memory (it says so)"
    )
    growth.know_model(MODEL)
    for second, memory in ((1000, 2), (1070, 11)):
        growth.take([reading(memory * GB, GB // 2)], second)
    had = (
        "it had 11.0 GB 0 s before, 9.0 GB more than 70 s earlier; its variables have 4.0 GB "
        "without optimizer slots, embeddings the most"
    )
    assert death(growth, "it says so") == (
        f"was killed by the kernel, which was out of memory (it says so): {had}"
    )
    assert death(growth) == (
        f"was killed by SIGKILL, probably as memory ran out (500.0 MB were left): {had}"
    )
    assert death(growth, code=137) == death(growth)
    assert death(growth, code=-15) is None
    assert death(growth, attempt=2) is None


@pytest.mark.parametrize("left", [None, 3 * GB])
def test_a_kill_with_memory_to_spare_says_nothing_of_memory(left: int | None) -> None:
    growth = MemoryGrowth()
    growth.take([reading(11 * GB, left)], 1070)
    assert death(growth) is None
