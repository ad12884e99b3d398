"""The numbered events of a host's tasks, kept so that a supervisor that was cut off can ask for
those it missed."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from psclust.supervise.events import Exited, NotStarted, Serving, Started

TaskEvent = Started | NotStarted | Exited | Serving


@dataclass(frozen=True, slots=True)
class Entry:
    """Numbers begin at 1."""

    number: int
    event: TaskEvent


class EventLog:
    """Append-only and thread-safe."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._grown = threading.Condition()

    def add(self, event: TaskEvent) -> None:
        with self._grown:
            self._entries.append(Entry(len(self._entries) + 1, event))
            self._grown.notify_all()

    def after(self, number: int, timeout_s: float) -> list[Entry]:
        """Entries with greater numbers; waits up to `timeout_s` for the first one."""
        with self._grown:
            self._grown.wait_for(lambda: len(self._entries) > number, timeout_s)
            return self._entries[number:]
