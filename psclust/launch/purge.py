"""Removes what runs have left on other hosts: their folders, and what was shipped to them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from psclust.errors import StartError
from psclust.launch.run_places import on_places, recorded_places, write_places
from psclust.rundir.folder import ClusterFolder

if TYPE_CHECKING:
    from psclust.reach.python.host_python import HostPython


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
