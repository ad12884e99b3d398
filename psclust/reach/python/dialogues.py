"""A Python on each host for all that has to be done there: one SSH session and one process, kept for as long as there are questions."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from psclust.reach.python.dialogue import Module, Script, remote_script
from psclust.reach.ssh.ssh_hosts import SshHosts


class Scripts(AbstractContextManager["Scripts"]):
    """On the hosts of `ssh`, in the first of `pythons` that a host has, each started when it is first asked. Leaving it ends them. A host
    is asked by one thread at a time."""

    def __init__(self, ssh: SshHosts, pythons: Sequence[str]) -> None:
        self.ssh = ssh
        self._pythons = pythons
        self._lock = threading.Lock()  # guards what follows
        self._stack = ExitStack()
        self._running: dict[str, Script] = {}

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    def ask(self, host: str, module: Module, question: dict[str, Any], payload: Iterable[bytes] = (), *, timeout: float = 60.0) -> Any:
        """See `Script.ask`."""
        return self.on(host).ask(module, question, payload, timeout=timeout)

    def on(self, host: str) -> Script:
        """Raises SshError where there is no Python that psclust can use."""
        with self._lock:
            script = self._running.get(host)
        if script is None:
            script = remote_script(self.ssh, host, self._pythons)
            with self._lock:
                self._running[host] = self._stack.enter_context(script)
        return script
