"""A transport that only pretends, and a supervisor with it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from psclust.errors import StartError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import TaskPlan
from psclust.rundir.folder import ClusterFolder
from psclust.spec.cluster import Task
from psclust.supervise.events import Stop
from psclust.supervise.supervisor import Supervisor
from psclust.testing.wait import PATIENCE_S
from psclust.transport.api import Output, SignalName


@dataclass
class Pretence:
    """Tasks that run until they are told to stop, on hosts that answer unless they are `dead`."""

    supervisor: Supervisor
    started: list[tuple[Task, str, str | None]] = field(default_factory=list)
    reserved: list[PortRequest] = field(default_factory=list)
    alive: set[Task] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        if any(request.on in self.dead for request in requests):
            raise StartError(f"{requests[0].on}: its agent does not answer.")
        self.reserved += requests
        return {request.task: 3000 + number for number, request in enumerate(self.reserved)}

    def start(self, plan: TaskPlan, attempt: int, log: Path) -> None:
        self.started.append((plan.task, plan.host, plan.address))
        self.alive.add(plan.task)
        self.supervisor.started(plan.task, 100 + len(self.started))

    def signal(self, task: Task, signal: SignalName) -> None:
        if task in self.alive:
            self.alive.discard(task)
            self.supervisor.exited(task, -15)

    def output(self, task: Task) -> Output:
        return Output(b"", 0)

    def serving(self, plan: TaskPlan) -> bool:
        return True

    def reap(self) -> None: ...

    def drain(self, task: Task, timeout_s: float) -> None: ...

    def has_agent(self, host: str) -> bool:
        return False

    def silent(self) -> Collection[str]:
        return self.dead

    def progress(self, task: Task) -> str | None:
        return None


PretenceT = TypeVar("PretenceT", bound=Pretence)


@contextmanager
def supervised(folder: Path, kind: type[PretenceT]) -> Iterator[PretenceT]:
    """A run with such a transport, whose supervisor is stopped at the end."""
    supervisor = Supervisor(ClusterFolder(folder / "test").new_run(), "test")
    transport = kind(supervisor)
    thread = threading.Thread(target=supervisor.run, args=(transport,), daemon=True)
    thread.start()
    try:
        yield transport
    finally:
        supervisor.post(Stop("the test is over"))
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
