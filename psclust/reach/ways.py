"""The ways to reach hosts, and the one place that chooses among them. A new way is a module with `connect` and `open_tunnel` (`Way`), a
line in WAYS, and its word in `spec.key_types.ReachBy`; a way that also finds hosts by itself has a line in FINDERS."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from psclust.reach.batch_jobs import BatchSystem
from psclust.reach.connections import Connections, Progress, Tunnel, Way
from psclust.spec.cluster import Host
from psclust.spec.found_hosts import LOCAL, FoundHosts

if TYPE_CHECKING:
    from psclust.spec.cluster_file import ClusterFile


class Finder(Protocol):
    def __call__(self, environ: Mapping[str, str], *, asked: bool) -> FoundHosts | None: ...


def _ssh() -> Way:
    from psclust.reach.ssh import ssh_way

    return ssh_way


def _slurm() -> Way:
    from psclust.reach.slurm import slurm_way

    return slurm_way


def _find_slurm(environ: Mapping[str, str], *, asked: bool) -> FoundHosts | None:
    from psclust.reach.slurm.allocation import find_allocation

    allocation = find_allocation(environ, asked=asked)
    return allocation.found_hosts() if allocation else None


# `reach_by` of the cluster file -> its way, imported when it is needed.
WAYS: Mapping[str, Callable[[], Way]] = {"ssh": _ssh, "slurm": _slurm}
# `hosts:` of the cluster file -> what finds the hosts in an environment, if there are any. asked: it is a mistake if there are none.
FINDERS: Mapping[str, Finder] = {"slurm": _find_slurm}


def find_hosts(word: str | None) -> FoundHosts | None:
    """See `psclust.spec.found_hosts.FindHosts`."""
    if word == LOCAL:
        return None
    if word is not None:
        return FINDERS[word](os.environ, asked=True)
    return next((found for find in FINDERS.values() if (found := find(os.environ, asked=False)) is not None), None)


def queue_again(file: ClusterFile, say: Callable[[str], None], before: Callable[[], None]) -> None:
    """Have the batch system that this process runs in start it again, if there is one and it may. `say` gets a line for the user; `before`
    is called first, as this process may then end at any time."""
    if file.reach_by == "slurm":
        from psclust.reach.slurm.requeue import requeue

        requeue(file.slurm.requeue, os.environ, say, before)


def batch_system() -> BatchSystem:
    from psclust.reach.slurm import sbatch

    return sbatch


def connect(
    file: ClusterFile, hosts: Sequence[Host], *, partial: bool = False, progress: Progress | None = None
) -> AbstractContextManager[Connections]:
    """See `Way.connect`."""
    return WAYS[file.reach_by]().connect(file, hosts, partial=partial, progress=progress)


def tunnel_via(file: ClusterFile, host: Host) -> dict[str, Any]:
    """How to open a tunnel to `host`, as JSON."""
    return {"reach_by": file.reach_by, "host": asdict(host)}


def open_tunnel(via: Mapping[str, Any], target: tuple[str, int]) -> Tunnel:
    """See `Way.open_tunnel`; `via`: of `tunnel_via`."""
    return WAYS[via["reach_by"]]().open_tunnel(Host(**via["host"]), target)
