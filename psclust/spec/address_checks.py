"""Checks of the addresses and ports that a cluster file fixes: they are valid, there are enough,
and no two tasks share one."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from psclust.spec.cluster import LOCALHOST, Task, numeric
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_assignment import pinned_host
from psclust.spec.job_keys import Job
from psclust.spec.jobs import is_in_cluster
from psclust.spec.key_types import EVERYBODY
from psclust.spec.plurals import counted
from psclust.spec.port_range import LAST_PORT, is_fixed, is_range, parse_port_range
from psclust.spec.problems import KeyPath, Problem


def _known_elsewhere(file: ClusterFile) -> Iterator[Problem]:
    """What needs servers at other addresses than the 127.0.0.1 of an encrypted run."""
    for name, job in file.jobs.items():
        if job.addresses:
            text = "with `encrypt`, tasks have addresses of 127.0.0.1; remove one of the two."
            yield Problem(("jobs", name, "addresses"), text, (("encrypt",),))
    if file.admit:
        text = "with `encrypt`, nobody else reaches a task; remove one of the two."
        yield Problem(("admit",), text, (("encrypt",),))


@dataclass(frozen=True, slots=True)
class _Use:
    """A `ports` key and the jobs that take their ports from it."""

    path: KeyPath
    ports: str
    jobs: Mapping[str, Job]


def check_addresses(file: ClusterFile) -> Iterator[Problem]:
    """Mistakes in ports and addresses."""
    serving = {
        name: job for name, job in file.all_jobs.items() if is_in_cluster(name, job.in_cluster)
    }
    uses = [use for use in _uses(file, serving) if use.ports != "auto"]
    invalid = {use.path: problem for use in uses for problem in _invalid(use)}
    yield from invalid.values()
    yield from (
        problem for use in uses if use.path not in invalid for problem in _too_small(use, file)
    )
    yield from (problem for problem in _collisions(file, serving) if not problem.rests_on(invalid))
    for name, job in file.jobs.items():
        yield from _addresses(name, job)
    if file.metrics is not None and not 0 < int(file.metrics.rpartition(":")[2]) <= LAST_PORT:
        yield Problem(("metrics",), f"found {file.metrics}; ports run from 1 to {LAST_PORT}.")
    if file.encrypt:
        yield from _known_elsewhere(file)
    for text in file.admit:
        if text != EVERYBODY and not _is_network(text):
            yield Problem(
                ("admit",),
                f"found '{text}'; write addresses and networks such as 10.0.0.7 or 10.1.0.0/16, "
                f"or {EVERYBODY}.",
            )


def _is_network(text: str) -> bool:
    """Of which a network has its number of bits, not a mask."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "%" not in text and text.partition("/")[2].isdecimal() == ("/" in text)


def _uses(file: ClusterFile, jobs: Mapping[str, Job]) -> Iterator[_Use]:
    yield _Use(
        ("ports",),
        file.ports,
        {name: job for name, job in jobs.items() if job.ports is None and not job.addresses},
    )
    for name, job in jobs.items():
        if job.ports is not None:
            yield _Use(("jobs", name, "ports"), job.ports, {name: job})


def _addresses(name: str, job: Job) -> Iterator[Problem]:
    here: KeyPath = ("jobs", name)
    for index, address in enumerate(job.addresses or ()):
        if not 0 < int(address.rpartition(":")[2]) <= LAST_PORT:
            yield Problem(
                (*here, "addresses", index), f"found '{address}'; ports run from 1 to {LAST_PORT}."
            )
    if job.addresses and len(job.addresses) != job.count:
        given = counted(len(job.addresses), "address", "addresses")
        text = (
            f"{counted(job.count, 'task')} but {given}; give each task one, or leave the count out."
        )
        yield Problem((*here, "count"), text, ((*here, "addresses"),))
    if job.addresses and job.ports:
        yield Problem(
            (*here, "ports"),
            "the addresses have ports already; keep one of the two.",
            ((*here, "addresses"),),
        )


def _invalid(use: _Use) -> Iterator[Problem]:
    low, high = parse_port_range(use.ports)
    most = max((job.count for job in use.jobs.values()), default=0)
    if low == 0 or max(low, high) > LAST_PORT:
        yield Problem(use.path, f"found {use.ports}; ports run from 1 to {LAST_PORT}.")
    elif high < low:
        yield Problem(use.path, f"the range {use.ports} runs backwards; write {high}-{low}.")
    elif not is_range(use.ports) and low + most - 1 > LAST_PORT:
        text = (
            f"{counted(most, 'task')} from port {low} on would go past {LAST_PORT}; "
            f"begin at {LAST_PORT + 1 - most} or below."
        )
        yield Problem(use.path, text, (("jobs",),))


def _too_small(use: _Use, file: ClusterFile) -> Iterator[Problem]:
    """Ranges with fewer ports than tasks on the fullest host, however the tasks are spread."""
    tasks = sum(job.count for job in use.jobs.values())
    if not tasks or not is_range(use.ports):
        return
    pins = [job.hosts for job in use.jobs.values() if job.hosts is not None]
    hosts = (
        len({name for names in pins for name in names})
        if len(pins) == len(use.jobs)
        else max(1, len(file.hosts))
    )
    crowd = -(-tasks // hosts)
    low, high = parse_port_range(use.ports)
    if crowd > high - low + 1:
        need = f"{tasks} tasks need {crowd}{' on one host' if hosts > 1 else ''}"
        text = (
            f"the range {use.ports} has {counted(high - low + 1, 'port')}; {need}. "
            f"Write {low}-{low + crowd - 1} or more."
        )
        yield Problem(use.path, text, (("jobs",), ("hosts",), ("hostfile",)))


def _collisions(file: ClusterFile, jobs: Mapping[str, Job]) -> Iterator[Problem]:
    """One problem for each key whose tasks meet others on an address."""
    taken: dict[str, tuple[Task, KeyPath]] = {}
    blamed: set[KeyPath] = set()
    for address, task, path in _claims(file, jobs):
        other, its_path = taken.setdefault(address, (task, path))
        if other == task or path in blamed:
            continue
        blamed.add(path)
        yield Problem(
            path,
            f"{other} and {task} would both listen on {address}; {_way_out(path)}",
            (its_path, ("jobs", other.job), ("jobs", task.job), ("hosts",), ("hostfile",)),
        )


def _way_out(path: KeyPath) -> str:
    if path == ("ports",):
        return "give each job ports of its own, or write a range such as 2222-2299."
    return (
        "give one of them another port."
        if "addresses" in path
        else "give the jobs different ports, or write auto."
    )


def _claims(file: ClusterFile, jobs: Mapping[str, Job]) -> Iterator[tuple[str, Task, KeyPath]]:
    """Addresses that are known before any host is asked for a port, the task that will listen at
    each, and the key that says so."""
    only = (file.hosts or [LOCALHOST])[0].name if len(file.hosts) < 2 else None
    for name, job in jobs.items():
        here: KeyPath = ("jobs", name)
        for index in range(job.count):
            task, ports = Task(name, index), job.ports or file.ports
            where = pinned_host(job, index) or only
            if index < len(job.addresses or ()):
                host, _, port = (job.addresses or [])[index].rpartition(":")
                yield f"{numeric(host)}:{int(port)}", task, (*here, "addresses", index)
            elif not job.addresses and is_fixed(ports) and where is not None:
                path: KeyPath = (*here, "ports") if job.ports else ("ports",)
                yield f"{numeric(where)}:{int(ports) + index}", task, path
