"""What is asked of a host before addresses are known: agents, which plan nothing, know this of planning."""

from __future__ import annotations

from dataclasses import dataclass

from psclust.spec.cluster import Task


@dataclass(frozen=True, slots=True)
class PortRequest:
    """A port that a task needs: at the address `host`, of the host that the cluster file names `on`. `wanted` is `auto`, a port, or a range
    `a-b`."""

    task: Task
    host: str
    wanted: str
    on: str = "localhost"
