"""SSH as a way to reach hosts: see `psclust.reach.connections.Way`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from psclust.reach.connections import Progress, WayOption
from psclust.spec.cluster import Host

if TYPE_CHECKING:
    from psclust.reach.ssh.ssh_hosts import SshHosts
    from psclust.reach.ssh.tunnel import SshTunnel
    from psclust.spec.cluster_file import ClusterFile

OPTIONS: Sequence[WayOption] = ()
MAY_BE_HERE = True
STANDING_AGENTS = True
CONNECTION_VARIABLE: str | None = "SSH_CONNECTION"


def find_hosts(environ: Mapping[str, str], *, asked: bool) -> None:
    return None


def batch_system() -> None:
    return None


def host_maker() -> None:
    return None


def connect(
    file: ClusterFile, hosts: Sequence[Host], *, partial: bool, progress: Progress | None
) -> SshHosts:
    from psclust.reach.ssh.ssh_hosts import SshHosts

    return SshHosts(
        hosts,
        parallel=file.ssh.parallel,
        deadline_s=file.ssh.deadline,
        progress=progress,
        partial=partial,
    )


def tunnel_settings(file: ClusterFile) -> Mapping[str, Any] | None:
    return {} if file.tunnel else None


def open_tunnel(host: Host, target: tuple[str, int], settings: Mapping[str, Any]) -> SshTunnel:
    from psclust.reach.ssh.tunnel import SshTunnel

    return SshTunnel(host, target)
