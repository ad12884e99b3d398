"""What has happened on a host, numbered, so that a launcher that was cut off can be told what it missed."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from psclust.supervise.events import Exited, NotStarted, Serving, Started

What = Started | NotStarted | Exited | Serving


@dataclass(frozen=True, slots=True)
class Entry:
    number: int
    what: What


class EventLog:
    """Grows only. Any thread may write and read."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._grown = threading.Condition()

    def add(self, what: What) -> None:
        with self._grown:
            self._entries.append(Entry(len(self._entries) + 1, what))
            self._grown.notify_all()

    def after(self, number: int, timeout: float) -> list[Entry]:
        """The entries with greater numbers; waits up to `timeout` seconds for one."""
        with self._grown:
            self._grown.wait_for(lambda: len(self._entries) > number, timeout)
            return self._entries[number:]
