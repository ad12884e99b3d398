"""What runs leave on other hosts (their folders, and what was shipped to them): recorded before it is there, removed by `purge`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psclust.errors import PsclustError, StartError
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import ClusterFolder
from psclust.spec.cluster import Host

if TYPE_CHECKING:
    from psclust.reach.python.host_facts import HostFacts
    from psclust.spec.cluster_file import ClusterFile


def record_places(cluster: ClusterFolder, run: str, file: ClusterFile, facts: Mapping[str, HostFacts], folders: Mapping[str, str]) -> None:
    """`run`: its name on the hosts; `folders`: its own on each of them. Call with the lock held."""
    places = {
        host.name: {
            "reach_by": file.reach_by,
            "host": asdict(host),
            "python": facts[host.name].executable,
            "cache": facts[host.name].cache,
            "folder": folders[host.name],
        }
        for host in file.hosts
    }
    write_atomically(cluster.hosts, json.dumps(_recorded(cluster) | {run: places}, indent=1))


def purge(cluster: ClusterFolder) -> list[str]:
    """Remove what all runs of a cluster have left on other hosts; returns `HOST: FOLDER` for each folder that stays because a process uses
    it. Raises StartError where a run is live, and with a line for each host that could not be asked: the next purge asks it again."""
    lock = cluster.lock()
    if lock is None:
        raise StartError(f"{cluster.name} has been started again meanwhile; what its runs have left on other hosts stays.")
    try:
        return _purge(cluster)
    finally:
        os.close(lock)


def _purge(cluster: ClusterFolder) -> list[str]:
    runs = _recorded(cluster)
    places = {host: place for run in runs.values() for host, place in run.items()}  # a host's place in its last run
    outcomes: dict[str, list[str] | str] = {}  # host -> folders that stay, or why it could not be asked
    for reach_by in dict.fromkeys(place["reach_by"] for place in places.values()):
        reached = {host: place for host, place in places.items() if place["reach_by"] == reach_by}
        folders = {host: {name: run[host]["folder"] for name, run in runs.items() if host in run} for host in reached}
        outcomes |= _purge_hosts(cluster.name, reach_by, reached, folders)
    left = {name: {host: place for host, place in run.items() if isinstance(outcomes[host], str)} for name, run in runs.items()}
    if runs:
        write_atomically(cluster.hosts, json.dumps({name: run for name, run in left.items() if run}, indent=1))
    failures = [outcome for outcome in outcomes.values() if isinstance(outcome, str)]
    if failures:
        raise StartError("\n".join(failures))
    return [f"{host}: {folder}" for host, kept in outcomes.items() for folder in kept]


def _purge_hosts(
    name: str, reach_by: Any, places: Mapping[str, Mapping[str, Any]], folders: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str] | str]:
    """`folders`: host -> run -> its folder there."""
    from psclust.reach.fan_out import attempt_on_each
    from psclust.reach.python.host_python import start_python
    from psclust.reach.ship.ship_folder import unship
    from psclust.reach.ways import connect
    from psclust.spec.cluster_file import ClusterFile

    hosts = [Host(**place["host"]) for place in places.values()]

    def clean(host: str) -> list[str]:
        with start_python(connections, host, [places[host]["python"]]) as python:
            return unship(python, host, places[host]["cache"], folders[host])

    with connect(ClusterFile(name=name, reach_by=reach_by), hosts, partial=True) as connections:
        outcomes = attempt_on_each(connections.names, clean)
        return {
            **connections.failures,
            **{host: str(outcome) if isinstance(outcome, PsclustError) else outcome for host, outcome in outcomes.items()},
        }


def _recorded(cluster: ClusterFolder) -> dict[str, dict[str, dict[str, Any]]]:
    """run -> host -> its place there."""
    try:
        return dict(json.loads(cluster.hosts.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
