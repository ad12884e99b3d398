"""Which task runs on which host."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from psclust.errors import NoRoomError, UsageError
from psclust.spec.cluster import LOCALHOST, Host, Task
from psclust.spec.job_keys import Job


@dataclass(frozen=True, slots=True)
class Dispensable:
    """The tasks that a run can do without, in order; at most so many of them at once. absent: those
    that it does without whether there is room for them or not."""

    tasks: Sequence[Task] = ()
    at_most: int = 0
    absent: Collection[Task] = ()


ALL_NEEDED = Dispensable()


def assign(
    jobs: Mapping[str, Job],
    hosts: Sequence[Host],
    kept: Mapping[Task, str] = MappingProxyType({}),
    *,
    without: Collection[Task] = (),
) -> dict[Task, Host]:
    """The host of every task, except those of `without`. Pinned tasks take their hosts first, then
    those that have a host already, in `kept`, as far as it has slots; the others take the hosts
    with a free slot in turn, so that the tasks of a job spread. Without hosts all run on this
    machine. Raises UsageError when the slots do not suffice."""
    pool = list(hosts) or [LOCALHOST]
    by_name = {host.name: host for host in pool}
    used = dict.fromkeys(by_name, 0)
    placed: dict[Task, Host] = {}
    pins = {task: pin for task, pin in _pins(jobs).items() if task not in without}
    for task, pin in pins.items():
        if pin is not None:
            used[pin] += 1
            placed[task] = by_name[pin]
    free = [task for task, pin in pins.items() if pin is None]
    for task in free:
        there = by_name.get(kept.get(task, ""))
        if there is not None and (there.slots is None or used[there.name] < there.slots):
            used[there.name] += 1
            placed[task] = there
    turn = 0
    for task in free:
        if task not in placed:
            placed[task] = _next_free(pool, used, turn, task)
            used[placed[task].name] += 1
        turn = pool.index(placed[task]) + 1
    return {task: placed[task] for task in pins}


def pinned_host(job: Job, index: int) -> str | None:
    """The host a task is pinned to: the job's hosts in order, repeated as needed."""
    return job.hosts[index % len(job.hosts)] if job.hosts else None


def _pins(jobs: Mapping[str, Job]) -> dict[Task, str | None]:
    return {
        Task(name, index): pinned_host(job, index)
        for name, job in jobs.items()
        for index in range(job.count)
    }


def _next_free(pool: list[Host], used: dict[str, int], turn: int, task: Task) -> Host:
    for step in range(len(pool)):
        host = pool[(turn + step) % len(pool)]
        if host.slots is None or used[host.name] < host.slots:
            return host
    offered = ", ".join(f"{host.name}: {host.slots}" for host in pool)
    raise UsageError(
        f"{task}: no slot is left for it; the hosts offer {offered}. Lower a count or raise slots."
    )


def reassign(
    placed: Mapping[Task, Host],
    jobs: Mapping[str, Job],
    hosts: Sequence[Host],
    lost: Sequence[str],
    *,
    optional: Collection[str] = (),
    dispensable: Dispensable = ALL_NEEDED,
) -> dict[Task, Host]:
    """`placed` without the hosts `lost`, in the order in which they were lost. A host can take a
    task for each slot it has left; a host without a number of slots takes any number, but only if
    it runs none yet. Tasks of `optional` jobs, and `dispensable` ones, that find no slot stay where
    they are. Raises NoRoomError for any other, and for one that is bound to its host."""
    found = dict(placed)
    absent = {*dispensable.absent}
    for count, name in enumerate(lost, 1):
        room = {host: _room(host, found) for host in hosts if host.name not in lost[:count]}
        leaving = [task for task, host in found.items() if host.name == name]
        for task in sorted(leaving, key=lambda task: _rank(task, optional, dispensable)):
            if task in dispensable.absent:
                continue
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
            elif task in dispensable.tasks:
                absent.add(task)
                _check_absent(absent, dispensable, obstacle or "")
            elif task.job not in optional:
                raise NoRoomError(obstacle or "")
    return found


def assign_present(
    jobs: Mapping[str, Job],
    hosts: Sequence[Host],
    lost: Sequence[str],
    *,
    optional: Collection[str] = (),
    dispensable: Dispensable = ALL_NEEDED,
) -> dict[Task, Host]:
    """As `assign`, for a run that starts without the hosts `lost`: of the dispensable tasks the
    last ones are named there, as far as the others have no room for them, and tasks that are pinned
    to them. Raises NoRoomError."""
    present = [host for host in hosts if host.name not in lost]
    if not present:
        raise NoRoomError("no host is left")
    pins = _pins(jobs)
    absent: set[Task] = set()
    idle: set[Task] = set()
    for task, pin in pins.items():
        if pin not in lost:
            continue
        if task in dispensable.tasks:
            absent.add(task)
        elif task.job in optional:
            idle.add(task)
        else:
            raise NoRoomError(_bond(task, jobs[task.job], pin or "") or "")
    waiting = [task for task in dispensable.tasks if task not in absent]
    while True:
        try:
            placed = assign(jobs, present, without=absent | idle)
            break
        except UsageError as error:
            if not waiting:
                raise NoRoomError(str(error).rstrip(".")) from None
            absent.add(last := waiting.pop())
            _check_absent(absent, dispensable, f"no slot is left for {last}")
    by_name = {host.name: host for host in hosts}
    return {task: placed.get(task) or by_name[pin or lost[0]] for task, pin in pins.items()}


def spare_host(
    placed: Mapping[Task, Host],
    task: Task,
    job: Job,
    hosts: Sequence[Host],
    away: Collection[str],
) -> Host:
    """The host with most room for a task, but its own and those of `away`. Raises NoRoomError."""
    own = placed[task].name
    room = {
        host: _room(host, placed) for host in hosts if host.name != own and host.name not in away
    }
    widest = max(room, key=room.__getitem__, default=None)
    obstacle = _bond(task, job, own)
    if obstacle is None and widest is not None and room[widest] >= 1:
        return widest
    raise NoRoomError(obstacle or "there is no spare slot on another host")


def closed_up(placed: Mapping[Task, Host], absent: Collection[Task]) -> dict[Task, Host]:
    """`placed` without the absent tasks of a job, in whose places its last ones are, so that its
    numbers have no gap."""
    job = [task for task in sorted(placed) if task.job in {each.job for each in absent}]
    left = len(job) - len(absent)
    movers = [task for task in job[left:] if task not in absent]
    holes = [task for task in job[:left] if task in absent]
    taken = {hole: placed[mover] for hole, mover in zip(holes, movers, strict=True)}
    return {task: taken.get(task, host) for task, host in placed.items() if task not in job[left:]}


def _rank(task: Task, optional: Collection[str], dispensable: Dispensable) -> int:
    """Those come first that the run needs most."""
    return 2 if task.job in optional else int(task in dispensable.tasks)


def _check_absent(absent: Collection[Task], dispensable: Dispensable, obstacle: str) -> None:
    if len(absent) > dispensable.at_most:
        least = len(dispensable.tasks) + 1 - dispensable.at_most
        raise NoRoomError(f"{obstacle}; fewer than {least} would be left (jobs.worker.min)")


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
