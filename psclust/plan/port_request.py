"""A request for a port, which a host reserves before addresses are known. Agents use it too."""

from __future__ import annotations

from dataclasses import dataclass

from psclust.spec.cluster import Task

_EXTRA = ".free_port"  # no job's name has a dot


@dataclass(frozen=True, slots=True)
class PortRequest:
    """A port for a task, at the address `host` of the host that the cluster file names `on`.
    `wanted` is `auto`, a port, or a range `a-b`. `task` is the task, or the name of its extra port
    (`extra_port`). reached: where forwarders of other hosts reach that of its host;
    None: tasks are reached at their ports."""

    task: Task
    host: str
    wanted: str
    on: str = "localhost"
    reached: str | None = None

    @property
    def is_extra(self) -> bool:
        """Whether it is a port that any server may bind, rather than that of the task's TensorFlow
        server."""
        return self.task.job.endswith(_EXTRA)

    @property
    def owner(self) -> Task:
        """The task itself, also for its extra port."""
        return Task(self.task.job.partition(".")[0], self.task.index)

    @property
    def what(self) -> str:
        return f"{{free_port}} of {self.owner}" if self.is_extra else str(self.task)


def extra_port(task: Task) -> Task:
    """The name under which the port of a task's `{free_port}` is reserved."""
    return Task(f"{task.job}{_EXTRA}", task.index)
