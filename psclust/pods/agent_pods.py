"""The pods of `psclust up --kubernetes`: hosts with one slot, where agents run the tasks. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path

from psclust.pods import pod_waiter
from psclust.pods.job_object import Object, labels, pod_spec
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile, ClusterText
from psclust.spec.found_hosts import FoundHosts
from psclust.spec.jobs import added_job, spec_position
from psclust.spec.kubernetes_checks import refuse_hosts
from psclust.spec.plurals import counted
from psclust.spec.program_command import parse_program

RUN_LABEL = "psclust/run"
SPARE = "spare"
_PYTHON = "python3"  # the image's; that this machine's interpreter exists there too means nothing
_PREPARE_S = 120  # for the launcher to start agents when the last pod runs
_IDLE_S = 10  # of a pod without an agent
_SUFFIXES = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def pods_of(text: ClusterText) -> FoundHosts:
    """A pod for each task, named after it, and the spare ones. Raises UsageError where the file
    names hosts of another kind."""
    refuse_hosts(text)
    jobs = {name: job.count for name, job in text.jobs.items() if job.count}
    added = added_job(list(jobs), text.replication, parse_program(text.program).kind)
    # In the order of the cluster spec, in which tasks take hosts with one slot.
    names = sorted(jobs | ({added: 1} if added else {}), key=spec_position)
    hosts = [f"{name}-{index}" for name in names for index in range(jobs.get(name, 1))]
    spares = [f"{SPARE}-{index}" for index in range(text.kubernetes.spares)]
    more = f" and {counted(len(spares), 'spare one')}" if spares else ""
    found = [Host(name, slots=1) for name in (*hosts, *spares)]
    return FoundHosts(
        "kubernetes",
        found,
        f"hosts: {counted(len(hosts), 'pod')}{more} of {text.kubernetes.image}",
        python=_PYTHON,
    )


def pod_name(cluster: str, host: str) -> str:
    return f"{cluster}-{host}"


def pod_objects(file: ClusterFile, run: str, source: str | None = None) -> dict[str, Object]:
    """Host -> its pod. `file` has the hosts of `pods_of`; `run`: the id of the run, a label;
    `source`: of the pod's first process, by default `psclust.pods.pod_waiter`."""
    source = source or Path(pod_waiter.__file__).read_text(encoding="utf-8")
    return {host.name: _pod(file, host.name, run, source) for host in file.hosts}


def _pod(file: ClusterFile, host: str, run: str, source: str) -> Object:
    job = host.rpartition("-")[0]
    jobs = list(file.all_jobs) if job == SPARE and job not in file.all_jobs else [job]
    spec: Object = {
        # A lost pod is a lost host: its tasks move. Restarts of tasks are the agent's, inside the
        # pod.
        "restartPolicy": "Never",
        # Nothing in the pod calls Kubernetes.
        "automountServiceAccountToken": False,
        # An agent has programs leave before it stops its tasks.
        **pod_spec(
            file,
            {"command": _command(file, source)},
            largest(file.kubernetes.resources.get(name, {}) for name in jobs),
            max(file.all_jobs[name].gpus or 0 for name in jobs),
            file.leave_s + file.deadlines.stop,
        ),
    }
    found = labels(file.name) | {"app.kubernetes.io/component": job, RUN_LABEL: run}
    metadata = {"name": pod_name(file.name, host), "labels": found}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _command(file: ClusterFile, source: str) -> list[str]:
    start_s = math.ceil(file.kubernetes.start) + _PREPARE_S
    return [file.python or _PYTHON, "-S", "-E", "-c", source, str(start_s), str(_IDLE_S)]


def largest(wanted: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Resource -> the largest quantity of it."""
    found: dict[str, str] = {}
    for each in wanted:
        for name, quantity in each.items():
            if name not in found or _amount(quantity) > _amount(found[name]):
                found[name] = quantity
    return found


def _amount(quantity: str) -> Fraction:
    """Of a quantity such as 500m or 8Gi."""
    match = re.fullmatch(r"([\d.]+)(m|[kMGTPEK]?)(i?)", quantity)
    assert match is not None
    number, suffix, binary = match.groups()
    if suffix == "m":
        return Fraction(number) / 1000
    thousands = _SUFFIXES[suffix.replace("K", "k")]
    factor: int = 2 ** (thousands // 3 * 10) if binary else 10**thousands
    return Fraction(number) * factor
