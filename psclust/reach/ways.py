"""The ways to reach hosts, and the one place that chooses among them. A new way is a module with
what `Way` asks for, a line in WAYS, and its word in `spec.key_types.ReachBy`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from psclust.reach.batch_jobs import BatchSystem
from psclust.reach.carried_tunnel import CarriedTunnel
from psclust.reach.connections import Connections, Progress, Way
from psclust.reach.host_maker import HostMaker
from psclust.spec.cluster import Host, TunnelWay
from psclust.spec.found_hosts import FoundHosts

if TYPE_CHECKING:
    from psclust.spec.cluster_file import ClusterFile, ClusterText


def _ssh() -> Way:
    from psclust.reach.ssh import ssh_way

    return ssh_way


def _slurm() -> Way:
    from psclust.reach.slurm import slurm_way

    return slurm_way


def _kubernetes() -> Way:
    from psclust.reach.kubernetes import kube_way

    return kube_way


# `reach_by` of the cluster file -> its way, imported when it is needed.
WAYS: Mapping[str, Callable[[], Way]] = {"ssh": _ssh, "slurm": _slurm, "kubernetes": _kubernetes}


def find_hosts(text: ClusterText) -> FoundHosts | None:
    """See `psclust.spec.found_hosts.FindHosts`."""
    if text.hosts is not None:
        return WAYS[str(text.hosts)]().find_hosts(os.environ, asked=True)
    ways = (way() for way in WAYS.values())
    return next((found for way in ways if (found := way.find_hosts(os.environ, asked=False))), None)


def batch_system() -> BatchSystem:
    """The one to which jobs are submitted."""
    return next(system for word in WAYS if (system := batch_of(word)) is not None)


def check_way(name: str) -> None:
    """Raises ValueError if there is no such way."""
    if name not in WAYS:
        raise ValueError(f"reach_by: {name!r} is none of {', '.join(WAYS)}")


def batch_of(reach_by: str) -> BatchSystem | None:
    """See `Way.batch_system`."""
    return WAYS[reach_by]().batch_system()


def host_maker(reach_by: str) -> HostMaker | None:
    """See `Way.host_maker`."""
    return WAYS[reach_by]().host_maker()


def may_be_here(reach_by: str) -> bool:
    """See `Way.MAY_BE_HERE`."""
    return WAYS[reach_by]().MAY_BE_HERE


def has_standing_agents(reach_by: str) -> bool:
    """See `Way.STANDING_AGENTS`."""
    return WAYS[reach_by]().STANDING_AGENTS


def connect(
    file: ClusterFile,
    hosts: Sequence[Host],
    *,
    partial: bool = False,
    progress: Progress | None = None,
) -> AbstractContextManager[Connections]:
    """See `Way.connect`."""
    return WAYS[file.reach_by]().connect(file, hosts, partial=partial, progress=progress)


def tunnels_via(file: ClusterFile, hosts: Sequence[Host]) -> dict[str, TunnelWay]:
    """By host; empty if agents are reached directly."""
    settings = WAYS[file.reach_by]().tunnel_settings(file)
    if settings is None:
        return {}
    return {host.name: TunnelWay(file.reach_by, host, dict(settings)) for host in hosts}


def open_tunnel(way: TunnelWay, target: tuple[str, int]) -> CarriedTunnel:
    """See `Way.open_tunnel`."""
    return WAYS[way.reach_by]().open_tunnel(way.host, target, way.settings)
