"""Which task runs on which host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psclust.errors import UsageError
from psclust.spec.cluster import LOCALHOST, Host, Task
from psclust.spec.job_keys import Job


def assign(jobs: Mapping[str, Job], hosts: Sequence[Host]) -> dict[Task, Host]:
    """The host of every task. Pinned tasks take their hosts first; the others take the hosts with a
    free slot in turn, so that the tasks of a job spread. Without hosts all run on this machine.
    Raises UsageError when the slots do not suffice."""
    pool = list(hosts) or [LOCALHOST]
    by_name = {host.name: host for host in pool}
    used = dict.fromkeys(by_name, 0)
    placed: dict[Task, Host] = {}
    pins = {
        Task(name, index): pinned_host(job, index)
        for name, job in jobs.items()
        for index in range(job.count)
    }
    for task, pin in pins.items():
        if pin is not None:
            used[pin] += 1
            placed[task] = by_name[pin]
    turn = 0
    for task in (task for task, pin in pins.items() if pin is None):
        host = _next_free(pool, used, turn, task)
        turn = pool.index(host) + 1
        used[host.name] += 1
        placed[task] = host
    return {task: placed[task] for task in pins}


def pinned_host(job: Job, index: int) -> str | None:
    """The host a task is pinned to: the job's hosts in order, repeated as needed."""
    return job.hosts[index % len(job.hosts)] if job.hosts else None


def _next_free(pool: list[Host], used: dict[str, int], turn: int, task: Task) -> Host:
    for step in range(len(pool)):
        host = pool[(turn + step) % len(pool)]
        if host.slots is None or used[host.name] < host.slots:
            return host
    offered = ", ".join(f"{host.name}: {host.slots}" for host in pool)
    raise UsageError(
        f"{task}: no slot is left for it; the hosts offer {offered}. Lower a count or raise slots."
    )
