"""The numbered events of a host's tasks, kept so that a supervisor that was cut off can ask for
those it missed."""

from __future__ import annotations

import threading

from psclust.agent import agent_pb2 as pb


class EventLog:
    """Append-only and thread-safe. Numbers begin at 1."""

    def __init__(self) -> None:
        self._events: list[pb.Event] = []
        self._grown = threading.Condition()

    def add(self, event: pb.Event) -> None:
        """Numbers it."""
        with self._grown:
            event.number = len(self._events) + 1
            self._events.append(event)
            self._grown.notify_all()

    def after(self, number: int, timeout_s: float) -> list[pb.Event]:
        """Events with greater numbers; waits up to `timeout_s` for the first one."""
        with self._grown:
            self._grown.wait_for(lambda: len(self._events) > number, timeout_s)
            return self._events[number:]
