"""The run that a verb is about: the one named, else the live one."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from psclust.cli import output
from psclust.errors import NoRunError, UsageError
from psclust.launch.job_runs import JobRuns
from psclust.rundir.folder import ClusterFolder, RunFolder, clusters, state_root
from psclust.rundir.status import RunStatus
from psclust.spec.cluster import Task


def find_cluster(name: str | None, run_dir: str | None, *, live: bool) -> ClusterFolder:
    """Raises NoRunError, which lists the candidates, if no cluster fits or several do. `live`:
    finished runs do not fit."""
    known = known_clusters(run_dir)
    running = [cluster for cluster in known if cluster.is_live()]
    if name is not None:
        for cluster in running if live else known:
            if cluster.name == name:
                return cluster
        there = ", ".join(cluster.name for cluster in (running if live else known)) or "none"
        raise NoRunError(
            f"{name}: no {'live ' if live else ''}run of that name; there is: {there}."
        )
    if len(running) == 1:
        return running[0]
    if running:
        raise NoRunError(
            f"several runs are live: {', '.join(cluster.name for cluster in running)}. Name one."
        )
    if live or not known:
        raise NoRunError("no run is live. Start one with `psclust up`.")
    return max(known, key=lambda cluster: (cluster.current() or RunFolder(cluster.path)).id)


def known_clusters(run_dir: str | None) -> list[ClusterFolder]:
    """Every cluster that has had a run; of those in batch jobs that are gone, the end is
    recorded."""
    found = clusters(state_root(os.environ, run_dir))
    job_runs().settle(found)
    return found


def job_runs() -> JobRuns:
    """One for each call of the command: it asks, and warns, once."""
    runs: JobRuns = click.get_current_context().meta.setdefault(__name__, JobRuns(output.error))
    return runs


def current_run(cluster: ClusterFolder) -> RunFolder:
    folder = cluster.current()
    if folder is None:
        raise NoRunError(f"{cluster.name}: has had no run.")
    return folder


def find_tasks(
    words: Sequence[str], run_dir: str | None, *, live: bool
) -> tuple[ClusterFolder, RunStatus, list[str]]:
    """`[NAME] [TASK...]`: a run and some of its tasks. A word with a colon or slash is a task; any
    other is the name of a cluster, or else of a job, for all its tasks. Raises UsageError."""
    known = [cluster.name for cluster in known_clusters(run_dir)]
    plain = [word for word in words if ":" not in word and "/" not in word]
    names = [word for word in plain if word in known]
    if len(names) > 1:
        raise UsageError(
            f"{' '.join(names)}: one name of a run is enough; a task is written worker:0."
        )
    cluster = find_cluster(names[0] if names else None, run_dir, live=live)
    status = job_runs().status(current_run(cluster))
    there = [task.task for task in status.tasks]
    wanted: dict[str, None] = {}
    for word in (word for word in words if word not in names):
        found = (
            [task for task in there if task.partition(":")[0] == word]
            if word in plain
            else [_task(word)]
        )
        if not found or not set(found) <= set(there):
            others = f"; there are runs of {', '.join(known)}" if word in plain else ""
            has = ", ".join(there) or "none, as it ended before they started"
            raise UsageError(f"{word}: {cluster.name} has no such task; it has {has}{others}.")
        wanted.update(dict.fromkeys(found))
    return cluster, status, list(wanted)


def _task(word: str) -> str:
    try:
        return str(Task.parse(word))
    except ValueError as error:
        raise UsageError(f"{error}.") from None
