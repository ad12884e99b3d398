"""Where runs are on other hosts, and how those are reached: recorded before anything is there, for
what is to be done there later."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from psclust.errors import PsclustError, StartError
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import ClusterFolder
from psclust.spec.cluster import Host

if TYPE_CHECKING:
    from psclust.reach.python.host_facts import HostFacts
    from psclust.reach.python.host_python import HostPython
    from psclust.spec.cluster_file import ClusterFile

_T = TypeVar("_T")

Place = Mapping[str, Any]


def record_places(
    cluster: ClusterFolder,
    run: str,
    file: ClusterFile,
    facts: Mapping[str, HostFacts],
    folders: Mapping[str, str],
) -> None:
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
    write_places(cluster, {**recorded_places(cluster), run: places})


def recorded_places(cluster: ClusterFolder) -> dict[str, Mapping[str, Place]]:
    """run -> host -> its place there."""
    try:
        return dict(json.loads(cluster.hosts.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


def write_places(cluster: ClusterFolder, runs: Mapping[str, Mapping[str, Place]]) -> None:
    """Raises OSError."""
    write_atomically(cluster.hosts, json.dumps(runs, indent=1))


def on_places(
    name: str, places: Mapping[str, Place], work: Callable[[str, HostPython], _T]
) -> dict[str, _T | str]:
    """host -> what `work` returned there, or why it could not be asked. name: the cluster's."""
    outcomes: dict[str, _T | str] = {}
    for reach_by in dict.fromkeys(place["reach_by"] for place in places.values()):
        outcomes |= _reached(
            name,
            reach_by,
            {host: place for host, place in places.items() if place["reach_by"] == reach_by},
            work,
        )
    return outcomes


def _reached(
    name: str, reach_by: Any, places: Mapping[str, Place], work: Callable[[str, HostPython], _T]
) -> dict[str, _T | str]:
    from psclust.reach.fan_out import attempt_on_each
    from psclust.reach.python.host_python import start_python
    from psclust.reach.ways import connect
    from psclust.spec.cluster_file import ClusterFile

    hosts = [Host(**place["host"]) for place in places.values()]

    def ask(host: str) -> _T:
        with start_python(connections, host, [places[host]["python"]]) as python:
            return work(host, python)

    with connect(ClusterFile(name=name, reach_by=reach_by), hosts, partial=True) as connections:
        outcomes = attempt_on_each(connections.names, ask)
        return {
            **connections.failures,
            **{
                host: str(outcome) if isinstance(outcome, PsclustError) else outcome
                for host, outcome in outcomes.items()
            },
        }


def purge(cluster: ClusterFolder) -> list[str]:
    """Remove what all runs of a cluster have left on other hosts; returns `HOST: FOLDER` for each
    folder that stays because a process uses it. Raises StartError where a run is live, and with a
    line for each host that could not be asked: the next purge asks it again."""
    lock = cluster.lock()
    if lock is None:
        raise StartError(
            f"{cluster.name} has been started again meanwhile; "
            "what its runs have left on other hosts stays."
        )
    try:
        return _purge(cluster)
    finally:
        os.close(lock)


def _purge(cluster: ClusterFolder) -> list[str]:
    from psclust.reach.ship.ship_folder import unship

    runs = recorded_places(cluster)
    places = {
        host: place for run in runs.values() for host, place in run.items()
    }  # a host's place in its last run

    def clean(host: str, python: HostPython) -> list[str]:
        folders = {name: run[host]["folder"] for name, run in runs.items() if host in run}
        return unship(python, host, places[host]["cache"], folders)

    outcomes = on_places(
        cluster.name, places, clean
    )  # host -> folders that stay, or why it could not be asked
    left = {
        name: {host: place for host, place in run.items() if isinstance(outcomes[host], str)}
        for name, run in runs.items()
    }
    if runs:
        write_places(cluster, {name: run for name, run in left.items() if run})
    failures = [outcome for outcome in outcomes.values() if isinstance(outcome, str)]
    if failures:
        raise StartError("\n".join(failures))
    return [f"{host}: {folder}" for host, kept in outcomes.items() for folder in kept]
