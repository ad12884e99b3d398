"""A transport that only pretends."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from psclust.errors import StartError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.supervisor import Supervisor
from psclust.transport.api import Output


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

    def signal(self, task: Task, signal: Literal["TERM", "KILL"]) -> None:
        if task in self.alive:
            self.alive.discard(task)
            self.supervisor.exited(task, -15)

    def output(self, task: Task) -> Output:
        return Output(b"", 0)

    def serving(self, plan: TaskPlan) -> bool:
        return True

    def reap(self) -> None: ...

    def drain(self, task: Task, timeout_s: float) -> None: ...

    def silent(self) -> Collection[str]:
        return self.dead

    def progress(self, task: Task) -> str | None:
        return None
