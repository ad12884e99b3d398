"""SSH as a way to reach hosts: see `psclust.reach.connections.Way`."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.reach.connections import Progress
from psclust.reach.ssh.ssh_hosts import SshHosts
from psclust.reach.ssh.tunnel import SshTunnel
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile


def connect(file: ClusterFile, hosts: Sequence[Host], *, partial: bool, progress: Progress | None) -> SshHosts:
    return SshHosts(hosts, parallel=file.ssh.parallel, deadline_s=file.ssh.deadline, progress=progress, partial=partial)


def open_tunnel(host: Host, target: tuple[str, int]) -> SshTunnel:
    return SshTunnel(host, target)
