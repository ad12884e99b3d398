"""A run's footprint on each other host: how the host is reached, and what the run may leave there.
Recorded before anything is there, so that a later command can end and remove it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from psclust.errors import DamagedFileError, PsclustError, StartError
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import ClusterFolder
from psclust.spec.cluster import Host
from psclust.spec.typed_json import converter, parse_json

if TYPE_CHECKING:
    from psclust.reach.python.host_facts import HostFacts
    from psclust.reach.python.host_python import HostPython
    from psclust.spec.cluster_file import ClusterFile

_T = TypeVar("_T")

# reach_by, host, python, cache (of shipped files) and folder (of the run).
Footprint = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Recorded:
    reach_by: str
    host: Host
    python: str
    cache: str
    folder: str


def record_footprints(
    cluster: ClusterFolder,
    run: str,
    file: ClusterFile,
    facts: Mapping[str, HostFacts],
    folders: Mapping[str, str],
) -> None:
    """`run`: its name on the hosts; `folders`: its own on each of them, which are added to those it
    has. For its launcher, or one that changes it while it is live."""
    footprints = {
        host.name: {
            "reach_by": file.reach_by,
            "host": asdict(host),
            "python": facts[host.name].executable,
            "cache": facts[host.name].cache,
            "folder": folders[host.name],
        }
        for host in file.hosts
        if host.name in folders
    }
    recorded = recorded_footprints(cluster)
    write_footprints(cluster, {**recorded, run: {**recorded.get(run, {}), **footprints}})


def recorded_footprints(cluster: ClusterFolder) -> dict[str, Mapping[str, Footprint]]:
    """run -> host -> its footprint there. Raises DamagedFileError: without the record, what runs
    have left would stay for ever."""
    from psclust.reach.ways import check_way

    try:
        found = parse_json(cluster.hosts.read_text(encoding="utf-8"))
        runs = converter(Mapping[str, Mapping[str, _Recorded]])(found)
        for each in (footprint for run in runs.values() for footprint in run.values()):
            check_way(each.reach_by)
        return dict(found)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DamagedFileError(
            cluster.hosts,
            error,
            "It records what runs have left on other hosts: remove it once nothing of them is "
            "left there.",
        ) from None


def write_footprints(cluster: ClusterFolder, runs: Mapping[str, Mapping[str, Footprint]]) -> None:
    """Raises OSError."""
    write_atomically(cluster.hosts, json.dumps(runs, indent=1))


def on_hosts_of(
    name: str, footprints: Mapping[str, Footprint], work: Callable[[str, HostPython], _T]
) -> dict[str, _T | str]:
    """host -> what `work` returned there, or why it could not be asked. name: the cluster's."""
    from psclust.reach.fan_out import attempt_on_each
    from psclust.reach.python.host_python import start_python
    from psclust.reach.ways import connect
    from psclust.spec.cluster_file import ClusterFile

    def ask(host: str) -> _T:
        with start_python(connections, host, [footprints[host]["python"]]) as python:
            return work(host, python)

    outcomes: dict[str, _T | str] = {}
    for way in dict.fromkeys(each["reach_by"] for each in footprints.values()):
        hosts = [Host(**each["host"]) for each in footprints.values() if each["reach_by"] == way]
        with connect(ClusterFile(name=name, reach_by=way), hosts, partial=True) as connections:
            outcomes |= connections.failures
            for host, outcome in attempt_on_each(connections.names, ask).items():
                outcomes[host] = str(outcome) if isinstance(outcome, PsclustError) else outcome
    return outcomes


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

    runs = recorded_footprints(cluster)
    footprints = {
        host: footprint for run in runs.values() for host, footprint in run.items()
    }  # a host's footprint in its last run

    def clean(host: str, python: HostPython) -> list[str]:
        folders = {name: run[host]["folder"] for name, run in runs.items() if host in run}
        return unship(python, host, footprints[host]["cache"], folders)

    outcomes = on_hosts_of(
        cluster.name, footprints, clean
    )  # host -> folders that stay, or why it could not be asked
    left = {
        name: {
            host: footprint for host, footprint in run.items() if isinstance(outcomes[host], str)
        }
        for name, run in runs.items()
    }
    if runs:
        write_footprints(cluster, {name: run for name, run in left.items() if run})
    failures = [outcome for outcome in outcomes.values() if isinstance(outcome, str)]
    if failures:
        raise StartError("\n".join(failures))
    return [f"{host}: {folder}" for host, kept in outcomes.items() for folder in kept]
