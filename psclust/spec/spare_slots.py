"""Moves the tasks of lost hosts to spare slots on others. Pure: every plan of the same cluster
without the same hosts is the same."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from psclust.errors import NoRoomError
from psclust.spec.cluster import Host, Task
from psclust.spec.job_keys import Job


def reassign(
    placed: Mapping[Task, Host],
    jobs: Mapping[str, Job],
    hosts: Sequence[Host],
    lost: Sequence[str],
    *,
    optional: Collection[str] = (),
) -> dict[Task, Host]:
    """`placed` without the hosts `lost`, in the order in which they were lost. A host can take a
    task for each slot it has left; a host without a number of slots takes any number, but only if
    it runs none yet. Tasks of `optional` jobs that find no slot stay where they are. Raises
    NoRoomError for any other, and for one that is bound to its host."""
    found = dict(placed)
    for count, name in enumerate(lost, 1):
        room = {host: _room(host, found) for host in hosts if host.name not in lost[:count]}
        leaving = [task for task, host in found.items() if host.name == name]
        for task in sorted(leaving, key=lambda task: task.job in optional):
            widest = max(room, key=room.__getitem__, default=None)
            obstacle = _bond(task, jobs[task.job], name)
            if obstacle is None and (widest is None or room[widest] < 1):
                obstacle = (
                    f"no spare slot is left for {task}; "
                    "a host with more `slots` than tasks lets a run go on"
                )
            if obstacle is None and widest is not None:
                found[task] = widest
                room[widest] -= 1
            elif task.job not in optional:
                raise NoRoomError(obstacle or "")
    return found


def _room(host: Host, placed: Mapping[Task, Host]) -> float:
    used = sum(1 for other in placed.values() if other == host)
    if host.slots is None:
        return 0 if used else math.inf
    return host.slots - used


def _bond(task: Task, job: Job, host: str) -> str | None:
    """Why a task cannot leave its host, as a clause."""
    if job.addresses:
        return f"{task} cannot move, because its address is given (jobs.{task.job}.addresses)"
    return (
        f"{task} cannot move, because it is pinned to {host} (jobs.{task.job}.hosts)"
        if job.hosts
        else None
    )
