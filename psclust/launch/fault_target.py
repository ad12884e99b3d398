"""What `psclust inject` hits: a task, a task of a job, a host, or the supervisor of a run."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

from psclust.errors import UsageError
from psclust.rundir.status import RunStatus
from psclust.transport.faults import ON_LINKS, FaultKind

SUPERVISOR = "supervisor"


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """name: as shown. host: where it is; `agents` below knows it if that is another machine. pid:
    as of `psclust.transport.faults.Fault`."""

    name: str
    host: str
    pid: int | None


def find_fault_target(
    word: str, kind: FaultKind, status: RunStatus, agents: Collection[str], chance: random.Random
) -> FaultTarget:
    """agents: hosts with an agent. chance: draws a running task if `word` is a job. Raises
    UsageError."""
    if word == SUPERVISOR and kind not in ON_LINKS:
        return FaultTarget(f"the supervisor of {status.name}", "", 0)
    if word in agents:
        return (
            FaultTarget(f"the links of {word}", word, None)
            if kind in ON_LINKS
            else FaultTarget(f"the agent on {word}", word, 0)
        )
    named = [task for task in status.tasks if word in (task.task, task.task.partition(":")[0])]
    if not named:
        there = [*(task.task for task in status.tasks), *sorted(agents), SUPERVISOR]
        raise UsageError(f"{word}: {status.name} has no such target; it has {', '.join(there)}.")
    running = [task for task in named if task.phase in ("starting", "running") and task.pid]
    if not running:
        raise UsageError(f"{word}: nothing of it runs; see `psclust ps {status.name}`.")
    task = chance.choice(running)
    if kind not in ON_LINKS:
        return FaultTarget(f"{task.task} on {task.host}", task.host, task.pid)
    if task.host not in agents:
        raise UsageError(f"{task.task} runs on {task.host}: only links of other hosts are cut.")
    return FaultTarget(f"the links of {task.host}", task.host, None)
