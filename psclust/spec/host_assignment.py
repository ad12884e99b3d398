"""Which task runs on which host. Pure: hosts and jobs in, one host a task out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psclust.errors import UsageError
from psclust.spec.cluster import LOCALHOST, Host, Task
from psclust.spec.cluster_file import Job


def assign(jobs: Mapping[str, Job], hosts: Sequence[Host]) -> dict[Task, Host]:
    """One host for every task of `jobs`: pinned jobs go to their hosts in order; the rest round the hosts that still have a slot,
    so that the tasks of a job spread. No hosts: everything on this machine. Raises UsageError when the slots do not suffice."""
    pool = list(hosts) or [LOCALHOST]
    by_name = {host.name: host for host in pool}
    used = dict.fromkeys(by_name, 0)
    placed: dict[Task, Host] = {}
    for job_name, job in jobs.items():
        for index in range(job.count if job.hosts else 0):
            assert job.hosts is not None
            host = by_name[job.hosts[index % len(job.hosts)]]
            used[host.name] += 1
            placed[Task(job_name, index)] = host
    turn = 0
    for job_name, job in jobs.items():
        for index in range(0 if job.hosts else job.count):
            host = _next_free(pool, used, turn, Task(job_name, index))
            turn = pool.index(host) + 1
            used[host.name] += 1
            placed[Task(job_name, index)] = host
    return {task: placed[task] for name, job in jobs.items() for task in (Task(name, i) for i in range(job.count))}


def _next_free(pool: list[Host], used: dict[str, int], turn: int, task: Task) -> Host:
    for step in range(len(pool)):
        host = pool[(turn + step) % len(pool)]
        if host.slots is None or used[host.name] < host.slots:
            return host
    offered = ", ".join(f"{host.name}: {host.slots}" for host in pool)
    raise UsageError(f"{task}: no slot is left for it; the hosts offer {offered}. Lower a count or raise slots.")
