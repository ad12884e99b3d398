"""Hosts that a batch system wants back during a run: `up`, which can ask it, tells the supervisor,
who has the tasks leave them."""

from __future__ import annotations

import threading
from contextlib import suppress

from psclust.control.supervisor_client import SupervisorClient
from psclust.errors import PsclustError
from psclust.reach.batch_jobs import BatchSystem
from psclust.rundir.folder import RunFolder
from psclust.supervise.replan import read_plan

EVERY_S = 30.0


class DrainedHosts:
    """Asks the batch system again and again, on a thread of its own."""

    def __init__(self, folder: RunFolder, batch: BatchSystem) -> None:
        self._folder, self._batch = folder, batch
        self._told: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drained hosts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            # It, or the supervisor, does not answer: later.
            with suppress(PsclustError):
                self._look()

    def _look(self) -> None:
        plan = read_plan(self._folder)
        used = {entry.host for entry in plan.tasks} - {*plan.lost}
        found = self._batch.wanted_back(sorted(used))
        # One that is free again may be drained again.
        self._told &= found.keys()
        with SupervisorClient(self._folder) as client:
            for host in found.keys() - self._told:
                client.leave(host, found[host])
                self._told.add(host)
