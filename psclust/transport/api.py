"""The seam between a run's supervisor and the ways to run tasks: calls go to a Transport, events
come back to a Listener."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.transport.process_facts import Inspector

_REMEMBERED = 1 << 14  # bytes
# USR1 asks a program to save its work and to end; USR2 asks one that `leaves` to give back its data
# and to end.
SignalName = Literal["TERM", "KILL", "USR1", "USR2"]


@dataclass(frozen=True, slots=True)
class Output:
    """The output of an attempt so far. tail: its last bytes. lost: how many bytes found no room on
    disk. unkept: the last of those. size: of all output, in bytes."""

    tail: bytes = b""
    lost: int = 0
    unkept: bytes = b""
    size: int = field(default=0, compare=False)

    def plus(self, data: bytes, kept: int) -> Output:
        """With `data` appended, of which the first `kept` bytes are on disk."""
        tail = (self.tail + data[-_REMEMBERED:])[-_REMEMBERED:]
        unkept = (self.unkept + data[kept:][-_REMEMBERED:])[-_REMEMBERED:]
        return Output(tail, self.lost + len(data) - kept, unkept, self.size + len(data))


class Listener(Protocol):
    """Receives a transport's events, on any thread. Each `start` is answered by `not_started`, or
    by `started` and later `exited`."""

    def started(self, task: Task, pid: int) -> None: ...

    def not_started(self, task: Task, reason: str) -> None:
        """reason: a sentence for the user."""

    def exited(self, task: Task, code: int, out_of_memory: str | None = None) -> None:
        """code: as Python gives it, negative for a signal. out_of_memory: the evidence that the
        kernel killed it for lack of memory, as a clause."""

    def soon(self, work: Callable[[], None]) -> None:
        """Run `work` on the thread that owns the transport. Fork servers must be started there: the
        kernel kills them when the thread that started them ends, not the process."""


class Transport(Protocol):
    """Runs the tasks of one run. Every method is called on one thread, the supervisor's. Only
    `reserve` and `drain` may wait; failures of the others become events."""

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        """Reserve a port for each request, until the transport is closed. Raises PortBusyError or
        StartError."""

    def start(self, plan: TaskPlan, attempt: int, log: Path) -> None:
        """Begin to start one attempt. Its output goes to `log`."""

    def signal(self, task: Task, signal: SignalName) -> None:
        """Signal the task's process group, if there is one. A task whose process does not exist yet
        is not started any more."""

    def output(self, task: Task) -> Output:
        """Of the latest attempt."""

    def drain(self, task: Task, timeout_s: float) -> None:
        """Wait until the output of an attempt that has ended is in its log."""

    def serving(self, plan: TaskPlan) -> bool:
        """Whether the task's port accepts connections."""

    def progress(self, task: Task) -> str | None:
        """Content of the task's progress file, None if there is none."""

    def has_agent(self, host: str) -> bool:
        """Whether tasks can start on another host: its agent is not lost."""
        return False

    def silent(self) -> Collection[str]:
        """Hosts without contact for some time."""

    def inspector(self) -> Inspector:
        """For any thread."""

    def reap(self) -> None:
        """Collect children that have ended. Called after SIGCHLD."""
