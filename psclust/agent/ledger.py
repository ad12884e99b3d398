"""What has happened on a host, numbered, so that a launcher that was cut off can be told what it missed."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from psclust.spec.cluster import Task


@dataclass(frozen=True, slots=True)
class Started:
    pid: int


@dataclass(frozen=True, slots=True)
class NotStarted:
    reason: str


@dataclass(frozen=True, slots=True)
class Exited:
    """code: as Python gives it, negative for a signal."""

    code: int


@dataclass(frozen=True, slots=True)
class Serving:
    """The task's port answers."""


What = Started | NotStarted | Exited | Serving


@dataclass(frozen=True, slots=True)
class Entry:
    number: int
    task: Task
    what: What


class Ledger:
    """Grows only. Any thread may write and read."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._grown = threading.Condition()

    def add(self, task: Task, what: What) -> None:
        with self._grown:
            self._entries.append(Entry(len(self._entries) + 1, task, what))
            self._grown.notify_all()

    def after(self, number: int, timeout: float) -> list[Entry]:
        """The entries with greater numbers; waits up to `timeout` seconds for one."""
        with self._grown:
            self._grown.wait_for(lambda: len(self._entries) > number, timeout)
            return self._entries[number:]
