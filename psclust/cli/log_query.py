"""Chooses lines from the logs of a run: by task, time and pattern, the last of them, in the order
in which they were printed."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain

from psclust.rundir.folder import RunFolder
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.rundir.timed_lines import LogLine, TimedLog, merged
from psclust.spec.cluster import Task

OVER = ("done", "failed", "stopped", "backoff")  # phases of a task without a process


@dataclass(frozen=True, slots=True)
class LineFilter:
    """since: seconds since the epoch. None: any."""

    since: float | None = None
    pattern: re.Pattern[str] | None = None


class LogQuery:
    """The chosen lines of `tasks`, all tasks if empty. undated: how many lines were left out
    because their time is not known."""

    def __init__(self, folder: RunFolder, tasks: Collection[str], chosen: LineFilter) -> None:
        self._folder = folder
        self._tasks = frozenset(tasks)
        self._chosen = chosen
        self._logs: dict[tuple[str, int], TimedLog] = {}
        self.undated = 0

    def lines(self, status: RunStatus, last: int | None = None) -> Iterator[LogLine]:
        """Those printed since the last call. last: of each task, at most so many."""
        tasks = [task for task in status.tasks if not self._tasks or task.task in self._tasks]
        found = (filter(self._is_chosen, self._of_task(status, task)) for task in tasks)
        return merged(iter(deque(lines, last)) if last is not None else lines for lines in found)

    def _of_task(self, status: RunStatus, task: TaskStatus) -> Iterator[LogLine]:
        over = task.attempt if status.ended or task.phase in OVER else task.attempt - 1
        logs = ((number, self._log(task.task, number)) for number in range(1, task.attempt + 1))
        return chain.from_iterable(log.lines(over=number <= over) for number, log in logs)

    def _log(self, task: str, attempt: int) -> TimedLog:
        path = self._folder.log(Task.parse(task), attempt)
        return self._logs.setdefault((task, attempt), TimedLog(path, task, attempt))

    def _is_chosen(self, line: LogLine) -> bool:
        since, pattern = self._chosen.since, self._chosen.pattern
        if pattern is not None and not pattern.search(line.text):
            return False
        if since is not None and line.time is None:
            self.undated += 1
            return False
        return since is None or (line.time is not None and line.time >= since)
