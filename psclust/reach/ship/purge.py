"""What runs leave on other hosts, and how it is removed: their folders, and what they were sent."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psclust.errors import PsclustError, StartError
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import ClusterFolder
from psclust.spec.cluster import Host

if TYPE_CHECKING:
    from psclust.reach.python.host_facts import HostFacts


def take_note(cluster: ClusterFolder, run: str, hosts: Sequence[Host], facts: Mapping[str, HostFacts], folders: Mapping[str, str]) -> None:
    """`run`: its name on the hosts; `folders`: its own on each of them. Call with the lock held."""
    noted = {
        host.name: {
            "ssh": asdict(host),
            "python": facts[host.name].executable,
            "cache": facts[host.name].cache,
            "folder": folders[host.name],
        }
        for host in hosts
    }
    write_atomically(cluster.hosts, json.dumps(_noted(cluster) | {run: noted}, indent=1))


def purge(cluster: ClusterFolder) -> list[str]:
    """Removes what all runs of a cluster have left on other hosts, by SSH; `HOST: FOLDER` for each that somebody uses all the same. Raises
    StartError where a run is live, and with a line for each host that could not be asked: it will be, the next time."""
    lock = cluster.lock()
    if lock is None:
        raise StartError(f"{cluster.name} has been started again meanwhile; what its runs have left on other hosts stays.")
    try:
        return _purge(cluster)
    finally:
        os.close(lock)


def _purge(cluster: ClusterFolder) -> list[str]:
    from psclust.reach.python.host_python import start_python
    from psclust.reach.ship.ship_folder import unship
    from psclust.reach.ssh.ssh_hosts import SshHosts

    runs = _noted(cluster)
    places = {host: place for run in runs.values() for host, place in run.items()}  # as it was in the last one
    if not places:
        return []

    def clean(host: str) -> list[str]:
        folders = {name: run[host]["folder"] for name, run in runs.items() if host in run}
        with start_python(ssh, host, [places[host]["python"]]) as python:
            return [f"{host}: {folder}" for folder in unship(python, host, places[host]["cache"], folders)]

    with SshHosts([Host(**place["ssh"]) for place in places.values()], partial=True) as ssh:
        outcomes = ssh.attempt_each(clean)
        failures = ssh.failures | {host: str(outcome) for host, outcome in outcomes.items() if isinstance(outcome, PsclustError)}
    left = {name: {host: place for host, place in run.items() if host in failures} for name, run in runs.items()}
    write_atomically(cluster.hosts, json.dumps({name: run for name, run in left.items() if run}, indent=1))
    if failures:
        raise StartError("\n".join(failures.values()))
    return [folder for outcome in outcomes.values() if not isinstance(outcome, PsclustError) for folder in outcome]


def _noted(cluster: ClusterFolder) -> dict[str, dict[str, dict[str, Any]]]:
    """run -> host -> its place there."""
    try:
        return dict(json.loads(cluster.hosts.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
