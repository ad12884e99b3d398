"""Pods as hosts: see `psclust.reach.connections.Way`. A command reaches a pod as `kubectl exec`
does, through the API server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psclust.reach.connections import Progress, WayOption
from psclust.spec.cluster import Host
from psclust.spec.typed_json import build

if TYPE_CHECKING:
    from psclust.reach.host_maker import HostMaker
    from psclust.reach.kubernetes.exec_tunnel import ExecTunnel
    from psclust.reach.kubernetes.kube_hosts import KubeHosts
    from psclust.spec.cluster_file import ClusterFile

OPTIONS: Sequence[WayOption] = (
    WayOption(
        "--kubernetes",
        dict.fromkeys(("up", "plan"), "In pods that psclust makes for this run, one for each task.")
        | {"exec": "In the pods of the live run."},
        "in pods",
    ),
    WayOption(
        "--image",
        dict.fromkeys(
            ("up", "plan"),
            "With --kubernetes: the image of all pods (default: the file's kubernetes.image).",
        ),
        "only pods have an image",
        "IMAGE",
        ("kubernetes", "image"),
    ),
)
MAY_BE_HERE = False
STANDING_AGENTS = True
CONNECTION_VARIABLE: str | None = None


def find_hosts(environ: Mapping[str, str], *, asked: bool) -> None:
    return None


def batch_system() -> None:
    return None


def host_maker() -> HostMaker:
    from psclust.reach.kubernetes import make_pods

    return make_pods


def connect(
    file: ClusterFile, hosts: Sequence[Host], *, partial: bool, progress: Progress | None
) -> KubeHosts:
    from psclust.reach.kubernetes.kube_api import KubeApi, find_location
    from psclust.reach.kubernetes.kube_hosts import KubeHosts

    api = KubeApi(find_location(file.kubernetes, os.environ))
    return KubeHosts(api, file.name, hosts, partial=partial)


def tunnel_settings(file: ClusterFile) -> Mapping[str, Any] | None:
    """Outside of the Kubernetes cluster the addresses of pods lead nowhere."""
    from psclust.reach.kubernetes.kube_api import find_location, is_in_cluster

    if not file.tunnel and is_in_cluster(os.environ):
        return None
    return {
        "location": asdict(find_location(file.kubernetes, os.environ)),
        "cluster": file.name,
        "python": file.python,
    }


def open_tunnel(host: Host, target: tuple[str, int], settings: Mapping[str, Any]) -> ExecTunnel:
    from psclust.pods.agent_pods import pod_name
    from psclust.reach.kubernetes.exec_tunnel import ExecTunnel
    from psclust.reach.kubernetes.kube_api import KubeApi, KubeLocation

    api = KubeApi(build(KubeLocation, settings["location"]))
    return ExecTunnel(api, pod_name(settings["cluster"], host.name), settings["python"], target)
