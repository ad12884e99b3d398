"""Checks that a cluster's tasks fit on its hosts: pinned jobs name hosts that exist, and slots
suffice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from psclust.spec.cluster import LOCALHOST, Host
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_assignment import pinned_host
from psclust.spec.job_keys import Job
from psclust.spec.plurals import counted, counted_tasks, some_of
from psclust.spec.problems import KeyPath, Problem
from psclust.spec.spelling import nearest

_HOSTS: tuple[KeyPath, ...] = (("hosts",), ("hostfile",))


def check_slots(file: ClusterFile) -> Iterator[Problem]:
    """Pins to unknown hosts, and too few slots."""
    jobs = file.all_jobs
    pins = list(_unknown_pins(file))
    yield from pins
    too_few = list(_total(file.hosts, jobs, _otherwise(file)))
    # One of the tasks may be psclust's addition.
    yield from (
        (replace(problem, text=f"{problem.text} {file.suited}") for problem in too_few)
        if file.suited
        else too_few
    )
    if not pins and not too_few:
        yield from _pinned(file.hosts, jobs)


def _unknown_pins(file: ClusterFile) -> Iterator[Problem]:
    names = [host.name for host in file.hosts or [LOCALHOST]]
    for job_name, job in file.jobs.items():
        for index, name in enumerate(job.hosts or ()):
            if name in names:
                continue
            near = nearest(name, names)
            if not file.hosts:
                hint = (
                    "the file lists no hosts, so everything runs on this machine; "
                    f"list {name} under hosts, or write localhost."
                )
            else:
                hint = f"did you mean {near}?" if near else f"the hosts are {some_of(names, 8)}."
            yield Problem(
                ("jobs", job_name, "hosts", index),
                f"'{name}' is not one of the hosts; {hint}",
                _HOSTS,
            )


def _otherwise(file: ClusterFile) -> str:
    if file.reach_by == "kubernetes":
        return "or, for the next run, raise kubernetes.spares"
    return "or ask for more CPUs" if file.found else "or raise slots"


def _total(hosts: Sequence[Host], jobs: Mapping[str, Job], otherwise: str) -> Iterator[Problem]:
    counts = dict(
        sorted(((name, job.count) for name, job in jobs.items()), key=lambda item: -item[1])
    )
    needed = sum(counts.values())
    offered = sum(host.slots or 0 for host in hosts)
    if not hosts or any(host.slots is None for host in hosts) or needed <= offered:
        return
    each = some_of([f"{host.name}: {host.slots}" for host in hosts], 8)
    text = (
        f"{counted_tasks(counts)} need {counted(needed, 'slot')}; "
        f"the hosts offer {offered} ({each}). Lower the count {otherwise}."
    )
    largest = next(iter(counts))
    yield Problem(("jobs", largest, "count"), text, (*_HOSTS, *(("jobs", name) for name in counts)))


def _pinned(hosts: Sequence[Host], jobs: Mapping[str, Job]) -> Iterator[Problem]:
    for host in hosts:
        load = Counter(
            name
            for name, job in jobs.items()
            for index in range(job.count)
            if pinned_host(job, index) == host.name
        )
        if host.slots is not None and load.total() > host.slots:
            verb = "is" if load.total() == 1 else "are"
            way_out = "Lower the count, raise slots, or pin to more hosts."
            text = (
                f"{counted_tasks(load)} {verb} pinned to {host.name}, "
                f"which has {counted(host.slots, 'slot')}. {way_out}"
            )
            largest = load.most_common(1)[0][0]
            yield Problem(
                ("jobs", largest, "hosts"), text, (*_HOSTS, *(("jobs", name) for name in load))
            )
