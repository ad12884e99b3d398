"""One Python process on each host for all the questions of a command: one session each, kept until the command is done with it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from psclust.reach.python.host_python import HostPython, Module, start_python
from psclust.reach.ssh.ssh_hosts import SshHosts


class HostPythons(AbstractContextManager["HostPythons"]):
    """A HostPython on each host of `ssh`, in the first of `interpreters` that the host has, started at the first question. Leaving the
    context ends them. One thread at a time may ask a given host."""

    def __init__(self, ssh: SshHosts, interpreters: Sequence[str]) -> None:
        self.ssh = ssh
        self._pythons = interpreters
        self._lock = threading.Lock()  # guards what follows
        self._stack = ExitStack()
        self._running: dict[str, HostPython] = {}

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    def ask(self, host: str, module: Module, question: dict[str, Any], payload: Iterable[bytes] = (), *, timeout: float = 60.0) -> Any:
        """See `HostPython.ask`."""
        return self.on(host).ask(module, question, payload, timeout=timeout)

    def on(self, host: str) -> HostPython:
        """Raises HostError where there is no Python that psclust can use."""
        with self._lock:
            python = self._running.get(host)
        if python is None:
            python = start_python(self.ssh, host, self._pythons)
            with self._lock:
                self._running[host] = self._stack.enter_context(python)
        return python
