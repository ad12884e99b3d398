"""The ways to reach hosts, and the one place that chooses among them. A new way is a module with `connect` and `open_tunnel` (`Way`), a
line in WAYS, and its word in `spec.key_types.ReachBy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psclust.reach.connections import Connections, Progress, Tunnel, Way
from psclust.spec.cluster import Host

if TYPE_CHECKING:
    from psclust.spec.cluster_file import ClusterFile


def _ssh() -> Way:
    from psclust.reach.ssh import ssh_way

    return ssh_way


# `reach_by` of the cluster file -> its way, imported when it is needed.
WAYS: Mapping[str, Callable[[], Way]] = {"ssh": _ssh}


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
