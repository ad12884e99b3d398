"""Hosts of an elastic run that were missing, or lost, and answer again: `up`, which can log in to
them, takes them back into the run."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from psclust.control.supervisor_client import SupervisorClient
from psclust.errors import PsclustError
from psclust.launch.change_lock import changing_alone
from psclust.launch.host_agents import start_host_agents
from psclust.launch.host_change import HostChange, let_hosts_go, with_hosts
from psclust.launch.live_change import change_run, described, find_live_run, request_of
from psclust.reach.batch_jobs import BatchSystem
from psclust.reach.connections import Connections
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.status_file import read_status
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile
from psclust.supervise.replan import read_plan

EVERY_S = 30.0  # between attempts at hosts that are not there

LogIn = Callable[[ClusterFile, Sequence[Host]], AbstractContextManager[Connections]]


class ReturningHosts:
    """Tries again to log in to hosts that the run has lost, on a thread of its own; not to those
    that the batch system, if there is one, wants back."""

    def __init__(
        self,
        cluster: ClusterFolder,
        folder: RunFolder,
        log_in: LogIn,
        batch: BatchSystem | None = None,
    ) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._cluster, self._folder = cluster, folder
        self._log_in, self._batch = log_in, batch
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="returning hosts", daemon=True)

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
            # One that is not there yet, or a run that is being changed: later.
            with suppress(PsclustError):
                for name in self._lost():
                    with changing_alone(self._folder):
                        self._take_back(name)

    def _lost(self) -> Sequence[str]:
        lost = read_plan(self._folder).lost
        kept = self._batch.wanted_back(lost) if self._batch is not None and lost else {}
        return [name for name in lost if name not in kept]

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
            try:
                request = request_of(run, file)
                joined = start_host_agents(
                    request, self._folder, client, connections, lambda line: None
                )
                made = change_run(run, file, client, joined)
            except PsclustError:
                let_hosts_go(run, [name], client)
                raise
        self._lines.put(f"{name} is back" + (f": {described(made)}" if made else ""))
