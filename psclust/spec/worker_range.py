"""The keys `min` and `max` of jobs.worker: with how many workers an elastic run goes on, and how
many it starts with where there is no `count`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from psclust.spec.cluster_file import ClusterFile, ClusterText
from psclust.spec.job_keys import Job
from psclust.spec.jobs import BETWEEN_GRAPH, WORKER
from psclust.spec.problems import KeyPath, Problem

_COUNT: KeyPath = ("jobs", WORKER, "count")
_File = TypeVar("_File", ClusterFile, ClusterText)


def least_workers(file: ClusterFile) -> int | None:
    """With how many workers the run still goes on; None if it needs all of them."""
    job = file.jobs.get(WORKER)
    return job.min if job is not None and file.is_elastic else None


def runs_freely(file: ClusterFile) -> bool:
    """Whether a worker can be missing while the others train on: asynchronous between-graph."""
    return file.update == "async" and (file.replication or BETWEEN_GRAPH) == BETWEEN_GRAPH


def with_workers(file: _File, count: int) -> _File:
    """The file with so many workers, or the least that it goes on with."""
    job = file.jobs[WORKER]
    counted = job.model_copy(update={"count": max(count, job.min or 1)})
    return file.model_copy(update={"jobs": {**file.jobs, WORKER: counted}})


def with_room(file: ClusterFile) -> ClusterFile:
    """The file with a number of workers: where it leaves that open, as many as the hosts have slots
    for, within min and max."""
    job = _open_job(file)
    if job is None:
        return file
    others = sum(each.count for name, each in file.all_jobs.items() if name != WORKER)
    slots = [host.slots for host in file.hosts]
    room = sum(each or 0 for each in slots) - others
    known = bool(slots) and None not in slots
    count = min(_most(job), room) if known else _most(job)
    return with_workers(file, count)


def as_wanted(text: ClusterText) -> ClusterText:
    """The file for those who find hosts by the number of tasks: with as many workers as it takes at
    most."""
    job = _open_job(text)
    return text if job is None else with_workers(text, _most(job))


def check_range(file: ClusterFile) -> Iterator[Problem]:
    """min and max are of the workers of an elastic run, and around its count."""
    for name, job in file.jobs.items():
        for key in ("min", "max"):
            if getattr(job, key) is not None and (name != WORKER or not file.is_elastic):
                yield Problem(
                    ("jobs", name, key),
                    "only the workers of a psclust program with `input: handed_out` may be fewer "
                    "or more while it trains; remove it.",
                    (("program",), ("input",)),
                )
    if file.replace_slow is not None and not (file.is_elastic and runs_freely(file)):
        yield Problem(
            ("replace_slow",),
            "only asynchronous between-graph workers of a psclust program with "
            "`input: handed_out` change places while they train; remove it.",
            (("program",), ("input",), ("update",), ("replication",)),
        )
    if WORKER not in file.jobs or not file.is_elastic:
        return
    job = file.jobs[WORKER]
    if job.addresses and (job.min is not None or job.max is not None):
        key = "min" if job.min is not None else "max"
        text = "the workers have `addresses`, one for each; remove one of the two."
        yield Problem(("jobs", WORKER, key), text, (("jobs", WORKER, "addresses"),))
    if job.min is not None and job.max is not None and job.min > job.max:
        text = f"{job.min} is more than max: {job.max}; write a smaller one."
        yield Problem(("jobs", WORKER, "min"), text, (("jobs", WORKER, "max"),))
    elif job.count and (why := _outside(job)) is not None:
        yield Problem(_COUNT, why, (("jobs", WORKER, "min"), ("jobs", WORKER, "max")))


def _outside(job: Job) -> str | None:
    if job.min is not None and job.count < job.min:
        return f"found {job.count}, fewer than min: {job.min}; write {job.min} or more."
    if job.max is not None and job.count > job.max:
        return f"found {job.count}, more than max: {job.max}; write {job.max} or less."
    return None


def _open_job(file: ClusterFile | ClusterText) -> Job | None:
    """The workers, if min and max alone say how many there are."""
    job = file.jobs.get(WORKER)
    if job is None or "count" in job.model_fields_set:
        return None
    return None if job.min is None and job.max is None else job


def _most(job: Job) -> int:
    return job.max or job.min or 1
