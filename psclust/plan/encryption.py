"""Whether what tasks of a run on hosts send each other travels under TLS."""

from __future__ import annotations

from psclust.plan.cluster_layout import ClusterLayout
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.port_range import is_fixed, is_range, parse_port_range

# Of a range of the file, which agents and forwarders take from it, too.
_OTHERS = 2


def is_encrypted(file: ClusterFile, layout: ClusterLayout) -> bool:
    return open_because(file, layout) is None if file.encrypt is None else file.encrypt


def open_because(file: ClusterFile, layout: ClusterLayout) -> str | None:
    """Why a run does not have what encryption needs, one address of 127.0.0.1 for each task, the
    same on every host; None: it does."""
    if file.admit:
        return "`admit` lets others connect to tasks"
    given = next((name for name, job in file.jobs.items() if job.addresses), None)
    if given is not None:
        return f"jobs.{given} has `addresses` of its own"
    wanted: dict[str, list[str]] = {}
    for request in layout.port_requests(file.ports):
        wanted.setdefault(request.wanted, []).append(request.what)
    for ports, tasks in wanted.items():
        if is_fixed(ports) and len(tasks) > 1:
            return f"`ports` gives {tasks[0]} and {tasks[1]} the same port"
        if is_range(ports) and _too_small(ports, len(tasks), file):
            return f"`ports: {ports}` has no port for each task alone"
    return None


def _too_small(ports: str, tasks: int, file: ClusterFile) -> bool:
    low, high = parse_port_range(ports)
    return high - low + 1 < tasks + (_OTHERS if ports == file.ports else 0)
