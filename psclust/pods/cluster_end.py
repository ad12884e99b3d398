"""How the pods of a cluster learn that its work is done. `psclust up` has a supervisor for that;
pods have only each other.

A task that decides answers on the pod's end port once its program has done its work, and only then.
Every task asks the deciders, one at a time and in order: the run is over for it when all have
answered. A decider goes on answering, and its program's server goes on serving, until every task
has asked it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

_TIMEOUT_S = 2.0
_MOST_ASKED_PER_S = 50  # in a large cluster, all tasks ask the same decider


class ClusterEnd:
    """`name`: this task, and `tasks`: all of the cluster, as `worker:0`. `deciders`: the end port
    of each task that decides, by name; its own counts as done after `announce`. Threads end with
    the process."""

    def __init__(
        self, name: str, tasks: Sequence[str], deciders: dict[str, tuple[str, int]]
    ) -> None:
        self._name = name
        self._others = set(tasks) - {name}
        self._waiting_for = dict(deciders)
        self._own = self._waiting_for.pop(name, None)
        self._asked_by: set[str] = set()
        self.announced = False
        self._answers = False
        self._over = threading.Event()
        self._interval_s = max(1.0, len(tasks) / _MOST_ASKED_PER_S)
        self._decided = bool(deciders)

    def watch(self) -> None:
        """Begin to ask the deciders."""
        if self._decided:
            threading.Thread(target=self._ask, daemon=True).start()

    def announce(self) -> None:
        """This task has done its work. Raises OSError if the end port cannot be bound; then the
        others do not learn it."""
        if self.announced:
            return
        try:
            self._listen()
        finally:
            self.announced = True

    def _listen(self) -> None:
        if self._own is not None:
            listener = socket.create_server(("", self._own[1]), backlog=128)
            self._answers = True
            threading.Thread(target=self._answer, args=(listener,), daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether all deciders have done their work."""
        return self._over.is_set() and (self._own is None or self.announced)

    @property
    def known_to_all(self) -> bool:
        """Whether this task need not wait any more for others to ask. True for a task that does not
        decide."""
        if self._own is None or (self.announced and not self._answers):
            return True
        return self._others <= self._asked_by

    def _ask(self) -> None:
        for task, address in self._waiting_for.items():
            while not self._is_done(task, address):
                self._over.wait(self._interval_s)
        self._over.set()

    def _is_done(self, task: str, address: tuple[str, int]) -> bool:
        try:
            with socket.create_connection(address, _TIMEOUT_S) as connection:
                connection.settimeout(_TIMEOUT_S)
                connection.sendall(f"{self._name}\n".encode())
                return connection.makefile().readline() == f"{task} done\n"
        except (OSError, ValueError):
            return False

    def _answer(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError, ValueError):
                connection.settimeout(_TIMEOUT_S)
                asker = connection.makefile().readline().strip()
                connection.sendall(f"{self._name} done\n".encode())
                self._asked_by.add(asker)
