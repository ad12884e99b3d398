"""The memory of tasks over time: a warning before it runs out, and what is known of a task that was
killed when it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

from psclust.placement.table import format_bytes
from psclust.supervise.backlog_growth import BacklogGrowth, in_words
from psclust.supervise.exit_code import shell_code
from psclust.supervise.reading import Reading

_SPACING_S = 10.0
_MOST_POINTS = 31
_LEAST_POINTS = 10
_LEAST_SPAN_S = 180.0
_WARN_S = 600.0
_LEAST_GROWTH = 0.05  # of the memory, over the points
_LITTLE_LEFT = 0.1  # of a task's memory
_STALE_S = 60.0
_COMPARED_S = 60.0


@dataclass(frozen=True, slots=True)
class Point:
    """Bytes of a task at a time, and those that its host had left for it, None if not known."""

    at: float
    memory: int
    left: int | None


def lasts_s(points: Sequence[Point]) -> float | None:
    """Seconds until the memory runs out, if it goes on to grow; None if it does not grow steadily,
    or has not been watched for long. What others take of the host counts too. The slope is the
    median of those between all pairs (Theil-Sen): some steps, or a peak, do not move it."""
    if len(points) < _LEAST_POINTS or points[-1].at - points[0].at < _LEAST_SPAN_S:
        return None
    left, memory = points[-1].left, points[-1].memory
    slope, lately = _slope(points), _slope(points[len(points) // 2 :])
    grown = slope * (points[-1].at - points[0].at)
    if left is None or grown < _LEAST_GROWTH * memory or lately < slope / 2:
        return None
    taken = -median(
        (b.left - a.left) / (b.at - a.at)
        for a, b in combinations(points, 2)
        if a.left is not None and b.left is not None
    )
    return left / max(slope, taken)


def _slope(points: Sequence[Point]) -> float:
    """Bytes a second."""
    return median((b.memory - a.memory) / (b.at - a.at) for a, b in combinations(points, 2))


@dataclass
class _Attempt:
    number: int
    points: list[Point]
    last: Point
    warned: bool = False


class MemoryGrowth:
    """Of all tasks of a run. For one thread."""

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}
        self._backlogs = BacklogGrowth()
        self._model: Mapping[str, Any] | None = None

    def know_model(self, model: Mapping[str, Any]) -> None:
        """model: as a chief reports it."""
        self._model = model

    def take(self, readings: Sequence[Reading], now: float) -> list[str]:
        """New readings, at `now`; returns warnings, each attempt's once, also about backlogs."""
        warnings = (
            self._take(each, Point(now, each.usage.memory, each.usage.left))
            for each in readings
            if each.usage is not None and each.usage.memory
        )
        found = [each for each in warnings if each is not None]
        return [*found, *self._backlogs.take(readings, now)]

    def _take(self, reading: Reading, point: Point) -> str | None:
        known = self._attempts.get(reading.task)
        if known is None or known.number != reading.attempt:
            self._attempts[reading.task] = _Attempt(reading.attempt, [point], point)
            return None
        known.last = point
        if point.at - known.points[-1].at < _SPACING_S:
            return None
        known.points = [*known.points, point][-_MOST_POINTS:]
        limit_s = None if known.warned else lasts_s(known.points)
        if limit_s is None or limit_s > _WARN_S:
            return None
        known.warned = True
        first = known.points[0]
        more, ago = format_bytes(point.memory - first.memory), in_words(point.at - first.at)
        text = (
            f"{reading.task}: its memory grows: {format_bytes(point.memory)}, {more} more than "
            f"{ago} ago; {reading.host} has {format_bytes(point.left or 0)} left, enough for about "
            f"{in_words(limit_s)}"
        )
        return text + self._variables(reading.task)

    def describe_death(
        self, task: str, attempt: int, code: int, evidence: str | None, now: float
    ) -> str | None:
        """How a task ended that was sent no SIGKILL by psclust, as a clause; None if nothing tells
        that memory was the reason. evidence: that the kernel killed it."""
        known = self._attempts.get(task)
        known = known if known is not None and known.number == attempt else None
        had = self._describe_memory(task, known, now) if known is not None else None
        if evidence is not None:
            text = f"was killed by the kernel, which was out of memory ({evidence})"
            return f"{text}: {had}" if had else text
        if known is None or had is None or known.last.left is None or shell_code(code) != 137:
            return None
        if now - known.last.at > _STALE_S or known.last.left > _LITTLE_LEFT * known.last.memory:
            return None
        left = format_bytes(known.last.left)
        return f"was killed by SIGKILL, probably as memory ran out ({left} were left): {had}"

    def _describe_memory(self, task: str, known: _Attempt, now: float) -> str:
        earlier = [each for each in known.points if known.last.at - each.at >= _COMPARED_S]
        before = earlier[-1] if earlier else known.points[0]
        text = f"it had {format_bytes(known.last.memory)} {in_words(now - known.last.at)} before"
        if known.last.memory > before.memory:
            more = format_bytes(known.last.memory - before.memory)
            text += f", {more} more than {in_words(known.last.at - before.at)} earlier"
        return text + self._variables(task) + self._backlogs.describe(task, known.number)

    def _variables(self, task: str) -> str:
        """How much of a ps are the variables of the model, as another clause."""
        job, _, index = task.partition(":")
        held = (self._model or {}).get("ps") or []
        if job != "ps" or int(index) >= len(held) or not held[int(index)].get("largest"):
            return ""
        here = held[int(index)]
        return (
            f"; its variables have {format_bytes(here['bytes'])} without optimizer slots, "
            f"{here['largest']} the most"
        )
