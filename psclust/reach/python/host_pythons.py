"""One Python process on each host for all the questions of a command: one session each, kept until
the command is done with it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

from psclust.reach.connections import Connections
from psclust.reach.python.host_python import HostPython, start_python


class HostPythons(AbstractContextManager["HostPythons"]):
    """A HostPython on each host of `connections`, in the first of `interpreters` that the host has,
    started at the first question. Leaving the context ends them. One thread at a time may ask a
    given host."""

    def __init__(self, connections: Connections, interpreters: Sequence[str]) -> None:
        self.connections = connections
        self._pythons = interpreters
        self._lock = threading.Lock()  # guards what follows
        self._stack = ExitStack()
        self._running: dict[str, HostPython] = {}

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    def on(self, host: str) -> HostPython:
        """Raises HostError where there is no Python that psclust can use."""
        with self._lock:
            python = self._running.get(host)
        if python is None:
            python = start_python(self.connections, host, self._pythons)
            with self._lock:
                self._running[host] = self._stack.enter_context(python)
        return python
