"""The lines of logs with their times, those of several tasks in the order in which they were
printed."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from psclust.rundir.log_reader import LineSplitter, read_from
from psclust.rundir.log_times import LogTimes, times_path

_UNTIMED_S = 1.0  # for output to get its time before it counts as without one


@dataclass(frozen=True, slots=True)
class LogLine:
    """text: without its newline. time: when the line was complete, in seconds since the epoch;
    None: unknown."""

    task: str
    attempt: int
    text: str
    time: float | None


class TimedLog:
    """The log of one attempt. It need not exist yet."""

    def __init__(self, path: Path, task: str, attempt: int) -> None:
        self._path = path
        self._task = task
        self._attempt = attempt
        self._times = LogTimes(path)
        self._splitter = LineSplitter()
        self._offset = 0

    def lines(self, *, over: bool) -> Iterator[LogLine]:
        """The lines since the last call. over: the attempt has ended, and its last line may lack a
        newline."""
        self._times.read()
        limit = None if over or self._is_untimed() else self._times.known_to
        while data := read_from(self._path, self._offset, limit):
            at = -1
            for line in self._splitter.feed(data):
                at = data.index(b"\n", at + 1) if line.endswith("\n") else at
                end = self._offset + (at + 1 if line.endswith("\n") else len(data))
                yield self._line(line.removesuffix("\n"), end)
            self._offset += len(data)
        if over:
            yield from (
                self._line(line.removesuffix("\n"), self._offset) for line in self._splitter.close()
            )

    def _line(self, text: str, end: int) -> LogLine:
        return LogLine(self._task, self._attempt, text, self._times.of(end))

    def _is_untimed(self) -> bool:
        """Whether there is output whose time has not come, and so will not come any more."""
        try:
            log = self._path.stat()
            times = times_path(self._path)
            dated = times.stat().st_mtime if times.exists() else 0.0
        except OSError:
            return False
        return log.st_size > self._times.known_to and log.st_mtime - dated > _UNTIMED_S


def merged(logs: Iterable[Iterator[LogLine]]) -> Iterator[LogLine]:
    """The lines of several tasks by time; one without a time stays behind the line before it."""
    return (
        line
        for _, _, line in heapq.merge(
            *(_dated(lines, number) for number, lines in enumerate(logs)), key=lambda item: item[:2]
        )
    )


def _dated(lines: Iterator[LogLine], number: int) -> Iterator[tuple[float, int, LogLine]]:
    last = 0.0
    for line in lines:
        last = max(last, line.time or 0.0)
        yield last, number, line
