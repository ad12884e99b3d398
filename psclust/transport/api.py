"""What the supervisor needs of a way to run tasks, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task

_REMEMBERED = 1 << 14  # bytes


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a task's attempt so far: the last bytes of it, how many found no room on disk, and the last of those."""

    tail: bytes = b""
    lost: int = 0
    unkept: bytes = b""

    def plus(self, data: bytes, kept: int) -> Output:
        """With some more, of which the first `kept` bytes found room."""
        tail = (self.tail + data[-_REMEMBERED:])[-_REMEMBERED:]
        return Output(tail, self.lost + len(data) - kept, (self.unkept + data[kept:][-_REMEMBERED:])[-_REMEMBERED:])


class Listener(Protocol):
    """Who is told of what happens to tasks. Called from any thread."""

    def started(self, task: Task, pid: int) -> None: ...

    def not_started(self, task: Task, reason: str) -> None: ...

    def exited(self, task: Task, code: int) -> None: ...

    def soon(self, work: Callable[[], None]) -> None:
        """Have `work` done on the thread that owns the transport. A fork server must be started there: the kernel ends it with the
        thread that started it, not with the process."""


class Transport(Protocol):
    """Starts tasks on the hosts it is for and says what becomes of them."""

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        """A port for each request, held until `release`. Raises PortBusyError or StartError."""

    def release(self, task: Task) -> None:
        """Give the task's port back."""

    def start(self, plan: TaskPlan, attempt: int, log: Path) -> None:
        """Ask for a process; the listener hears `started` or `not_started`, later `exited`."""

    def signal(self, task: Task, signal: Literal["TERM", "KILL"]) -> None:
        """To the task's whole process group; nothing when it is gone."""

    def output(self, task: Task) -> Output:
        """Of the latest attempt."""

    def serving(self, plan: TaskPlan) -> bool:
        """Whether the task's port answers. Must not wait."""

    def close(self) -> None:
        """Let go of everything. No task is alive any more."""
