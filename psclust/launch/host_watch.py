"""Hosts of an elastic run that come and go, as `up` sees, which can ask the batch system, and log
in to hosts. Tasks leave a host that the batch system wants back; one that was missing, or lost, and
answers again is taken back into the run."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from psclust.control.supervisor_client import SupervisorClient
from psclust.errors import PsclustError
from psclust.launch.change_lock import changing_alone
from psclust.launch.host_change import HostChange, change_with_hosts, with_hosts
from psclust.launch.live_change import described, find_live_run
from psclust.reach.connections import Connections
from psclust.reach.ways import batch_of
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.status_file import read_status
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.worker_range import least_workers
from psclust.supervise.replan import read_plan

EVERY_S = 30.0

LogIn = Callable[[ClusterFile, Sequence[Host]], AbstractContextManager[Connections]]


class HostWatch:
    """Looks again and again, on a thread of its own. log_in: to hosts that the run has lost; it
    takes none back unless it may do without some (jobs.worker.min)."""

    def __init__(
        self, cluster: ClusterFolder, folder: RunFolder, file: ClusterFile, log_in: LogIn
    ) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._cluster, self._folder = cluster, folder
        self._log_in, self._batch = log_in, batch_of(file.reach_by)
        self._takes_back = least_workers(file) is not None
        self._leaving: set[str] = set()  # as the supervisor was told
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="host watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def told(self) -> Iterator[str]:
        """What it has done since the last call, for the user."""
        while not self._lines.empty():
            yield self._lines.get()

    def close(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            for look in (self._leave_wanted, self._take_back_lost):
                # What does not answer yet, or is being changed: later.
                with suppress(PsclustError):
                    look()

    def _wanted_back(self, hosts: Sequence[str]) -> dict[str, str]:
        """Those that the batch system, if there is one, wants back, and why."""
        return self._batch.wanted_back(hosts) if self._batch is not None and hosts else {}

    def _leave_wanted(self) -> None:
        plan = read_plan(self._folder)
        found = self._wanted_back(sorted({entry.host for entry in plan.tasks} - {*plan.lost}))
        # One that is free again may be drained again.
        self._leaving &= found.keys()
        for host in found.keys() - self._leaving:
            with SupervisorClient(self._folder) as client:
                client.leave(host, found[host])
            self._leaving.add(host)

    def _take_back_lost(self) -> None:
        lost = read_plan(self._folder).lost if self._takes_back else ()
        kept = self._wanted_back(lost)
        for name in lost:
            if name not in kept:
                with changing_alone(self._folder):
                    self._take_back(name)

    def _take_back(self, name: str) -> None:
        run = find_live_run(self._cluster, self._folder, read_status(self._folder))
        host = next((each for each in run.file.hosts if each.name == name), None)
        if host is None:
            return
        change = HostChange(added=(host,))
        run = replace(run, returning=(name,))
        file = with_hosts(run, change)
        with self._log_in(file, [host]) as connections, SupervisorClient(self._folder) as client:
            if connections.failures:
                return
            made = change_with_hosts(run, file, client, connections, lambda line: None)
        self._lines.put(f"{name} is back" + (f": {described(made)}" if made else ""))
