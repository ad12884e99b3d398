"""The ways to reach hosts, and the one place that chooses among them. A new way is a module with
the functions of `Way`, a line in WAYS, and its word in `spec.key_types.ReachBy`; a way that also
finds hosts by itself has a line in FINDERS, one that makes them a line in MAKERS."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from psclust.reach.batch_jobs import BatchSystem
from psclust.reach.connections import Connections, Progress, Tunnel, Way
from psclust.reach.host_maker import HostMaker
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


def _kubernetes() -> Way:
    from psclust.reach.kubernetes import kube_way

    return kube_way


def _make_pods() -> HostMaker:
    from psclust.reach.kubernetes import make_pods

    return make_pods


def _find_slurm(environ: Mapping[str, str], *, asked: bool) -> FoundHosts | None:
    from psclust.reach.slurm.allocation import find_allocation

    allocation = find_allocation(environ, asked=asked)
    return allocation.found_hosts() if allocation else None


# `reach_by` of the cluster file -> its way, imported when it is needed.
WAYS: Mapping[str, Callable[[], Way]] = {"ssh": _ssh, "slurm": _slurm, "kubernetes": _kubernetes}
# `hosts:` of the cluster file -> what finds the hosts in an environment, if there are any. asked:
# it is a mistake if there are none.
FINDERS: Mapping[str, Finder] = {"slurm": _find_slurm}
# `reach_by` -> what makes the hosts of a run, and removes them at its end. Nothing of a run is left
# on such hosts.
MAKERS: Mapping[str, Callable[[], HostMaker]] = {"kubernetes": _make_pods}


def find_hosts(word: str | None) -> FoundHosts | None:
    """See `psclust.spec.found_hosts.FindHosts`."""
    if word == LOCAL:
        return None
    if word is not None:
        return FINDERS[word](os.environ, asked=True)
    return next(
        (
            found
            for find in FINDERS.values()
            if (found := find(os.environ, asked=False)) is not None
        ),
        None,
    )


def queue_again(file: ClusterFile, say: Callable[[str], None], before: Callable[[], None]) -> None:
    """Have the batch system that this process runs in start it again, if there is one and it may.
    `say` gets a line for the user; `before` is called first, as this process may then end at any
    time."""
    if file.reach_by == "slurm":
        from psclust.reach.slurm.requeue import requeue

        requeue(file.slurm.requeue, os.environ, say, before)


def batch_system() -> BatchSystem:
    from psclust.reach.slurm import sbatch

    return sbatch


def host_maker(reach_by: str) -> HostMaker | None:
    """None for hosts that exist by themselves."""
    return MAKERS[reach_by]() if reach_by in MAKERS else None


def connect(
    file: ClusterFile,
    hosts: Sequence[Host],
    *,
    partial: bool = False,
    progress: Progress | None = None,
) -> AbstractContextManager[Connections]:
    """See `Way.connect`."""
    return WAYS[file.reach_by]().connect(file, hosts, partial=partial, progress=progress)


def tunnels_via(file: ClusterFile, hosts: Sequence[Host]) -> dict[str, dict[str, Any]]:
    """Host -> how to open a tunnel to it, as JSON; empty if agents are reached directly."""
    place = WAYS[file.reach_by]().tunnel_place(file)
    if place is None:
        return {}
    return {
        host.name: {"reach_by": file.reach_by, "host": asdict(host), "place": dict(place)}
        for host in hosts
    }


def open_tunnel(via: Mapping[str, Any], target: tuple[str, int]) -> Tunnel:
    """See `Way.open_tunnel`; `via`: of `tunnels_via`."""
    return WAYS[via["reach_by"]]().open_tunnel(Host(**via["host"]), target, via["place"])
