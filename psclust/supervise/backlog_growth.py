"""What waits on the connections of tasks over time: a warning when it only grows, so that a task
does not keep up with what is sent to it, or its peers with what it sends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psclust.placement.table import format_bytes
from psclust.supervise.reading import Reading

_SPACING_S = 5.0
_LEAST_POINTS = 12
_LEAST_SPAN_S = 60.0
_LEAST_GROWTH = 64_000  # bytes; a receiver that reads nothing gets 130 kB on each connection

# (name in Usage, what a warning says, what it says of a task that has died)
_KINDS = (
    (
        "unread",
        "it does not keep up with what is sent to it: {now} have arrived that it has not read",
        "{now} had arrived that it had not read",
    ),
    (
        "unsent",
        "its peers do not keep up with what it sends: {now} wait to be sent",
        "{now} waited to be sent",
    ),
)


@dataclass
class _Backlog:
    """Since it was last less than before. first, last: bytes. points: how often it was seen, at
    intervals."""

    attempt: int
    began: float
    first: int
    last: int
    seen: float
    points: int = 1

    @property
    def has_grown(self) -> bool:
        """For long enough. A server that keeps up has read all, or at least more than before, at
        one of so many looks, however busy it is."""
        return (
            self.points >= _LEAST_POINTS
            and self.seen - self.began >= _LEAST_SPAN_S
            and self.last - self.first >= _LEAST_GROWTH
        )

    def in_words(self, text: str, ago: str) -> str:
        more, since = format_bytes(self.last - self.first), in_words(self.seen - self.began)
        return f"{text.format(now=format_bytes(self.last))}, {more} more than {since} {ago}"


class BacklogGrowth:
    """Of all tasks of a run. For one thread."""

    def __init__(self) -> None:
        self._backlogs: dict[tuple[str, str], _Backlog] = {}
        self._warned: set[tuple[str, str, int]] = set()

    def take(self, readings: Sequence[Reading], now: float) -> Iterator[str]:
        """New readings, at `now`; returns warnings, each attempt's once."""
        for reading in readings:
            for kind, text, _ in _KINDS:
                size = getattr(reading.usage, kind, None)
                if size is None or not reading.usage or not reading.usage.memory:
                    continue  # unknown, or its process has just ended
                known = self._watch(reading, kind, size, now)
                key = reading.task, kind, reading.attempt
                if known.has_grown and key not in self._warned:
                    self._warned.add(key)
                    yield f"{reading.task}: {known.in_words(text, 'ago')}"

    def describe(self, task: str, attempt: int) -> str:
        """What had grown until a task died, as further clauses."""
        found = ((self._backlogs.get((task, kind)), text) for kind, _, text in _KINDS)
        return "".join(
            f"; {known.in_words(text, 'earlier')}"
            for known, text in found
            if known is not None and known.attempt == attempt and known.has_grown
        )

    def _watch(self, reading: Reading, kind: str, size: int, now: float) -> _Backlog:
        known = self._backlogs.get((reading.task, kind))
        if known is None or known.attempt != reading.attempt or size < known.last:
            known = _Backlog(reading.attempt, now, size, size, now)
            self._backlogs[reading.task, kind] = known
        known.last = size
        if now - known.seen >= _SPACING_S:
            known.seen = now
            known.points += 1
        return known


def in_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
