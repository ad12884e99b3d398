"""`psclust down`: end a run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import click

from psclust.cli import output
from psclust.cli.common_options import run_dir_option
from psclust.cli.completions import run_names
from psclust.cli.run_selection import current_run, find_cluster, job_runs, known_clusters
from psclust.errors import NoRunError, StartError, UsageError
from psclust.launch.footprints import purge as remove_what_is_left
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.status import QUEUED
from psclust.rundir.status_file import read_status
from psclust.spec.plurals import counted

_DEADLINE_S = 120.0
_ANSWER_S = 10.0  # for the supervisor to take the request
_NOW_S = 3.0
_CLEANING_S = 3.0  # for a guard to clean up after a dead supervisor
_POLL_S = 0.02


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=run_names(live=True))
@click.option("--all", "everything", is_flag=True, help="End every live run.")
@click.option("--now", is_flag=True, help="KILL at once, without the grace that TERM gives.")
@click.option(
    "--purge",
    is_flag=True,
    help="Then remove what its runs left on other hosts: their folders, and files sent for them.",
)
@run_dir_option
def command(
    names: tuple[str, ...], everything: bool, now: bool, purge: bool, run_dir: str | None
) -> None:
    """End the live run, or the named ones: TERM to every task, KILL after the grace
    (deadlines.stop, 10 s by default). Returns when no process of them is alive. A run that has
    ended already is left as it is.

    --purge removes the folders that were sent with all that tasks wrote into them.
    """
    failures = []
    for cluster in _wanted(names, run_dir, everything=everything):
        try:
            _end_or_purge(cluster, now=now, purge=purge)
        except StartError as error:
            failures.append(str(error))
    if failures:
        raise StartError("\n".join(failures))


def _end_or_purge(cluster: ClusterFolder, *, now: bool, purge: bool) -> None:
    if cluster.is_live():
        _end(cluster, now=now)
    elif not purge:
        status = read_status(current_run(cluster))
        how = (
            "it ended well"
            if status.ok
            else f"it {'was stopped' if status.was_stopped else 'failed'}: {status.text}"
        )
        output.say(f"{cluster.name} is down already; {how}")
        _end_left_agents(cluster)
        _remove_left_hosts(cluster)
    if purge:
        kept = remove_what_is_left(cluster)
        lines = [
            f"nothing of {cluster.name} is left on other hosts",
            *(f"{folder} is in use, and stays" for folder in kept),
        ]
        output.say("\n".join(lines))


def _end_left_agents(cluster: ClusterFolder) -> None:
    """End the agents of runs whose supervisor was killed."""
    left = [run for run in cluster.runs() if run.agents.exists()]
    lock = cluster.lock() if left else None
    if lock is None:  # nothing is left, or it has been started again meanwhile
        return
    from psclust.launch.earlier_agents import end_earlier_agents

    try:
        end_earlier_agents(cluster, left, output.say)
    finally:
        os.close(lock)


def _remove_left_hosts(cluster: ClusterFolder) -> None:
    """Remove the hosts of runs whose launcher died before it could do that."""
    left = [run for run in cluster.runs() if run.made_hosts.exists()]
    if left:
        from psclust.reach.made_hosts import remove_hosts

        count = sum(map(remove_hosts, left))
        output.say(
            f"{counted(count, 'host')} that its runs had left "
            f"{'was' if count == 1 else 'were'} removed"
        )


def _wanted(names: Sequence[str], run_dir: str | None, *, everything: bool) -> list[ClusterFolder]:
    """Raises UsageError for an unknown name, and if several runs are live and none is named."""
    if names and everything:
        raise UsageError(f"--all and {' '.join(names)}: either all live runs, or those named.")
    if names:
        return [find_cluster(name, run_dir, live=False) for name in dict.fromkeys(names)]
    running = [cluster for cluster in known_clusters(run_dir) if cluster.is_live()]
    if everything:
        if not running:
            output.say("no run is live")
        return running
    if len(running) > 1:
        raise UsageError(
            f"several runs are live: {', '.join(cluster.name for cluster in running)}. "
            "Name those to end, or end --all."
        )
    return [find_cluster(None, run_dir, live=False)]


def _end(cluster: ClusterFolder, *, now: bool) -> None:
    folder, runs = current_run(cluster), job_runs()
    if runs.status(folder).phase == QUEUED:
        output.say(
            f"{cluster.name} is down; {runs.cancel(cluster)} was cancelled before it started"
        )
        return
    if _ask(cluster, folder, now=now):
        deadline = time.monotonic() + _DEADLINE_S
        while cluster.is_live():
            runs.settle([cluster])
            if time.monotonic() > deadline:
                raise StartError(
                    f"{cluster.name} is still ending after {_DEADLINE_S:g} s; "
                    "`psclust down --now` does not wait for its tasks."
                )
            time.sleep(_POLL_S)
    tasks = read_status(folder).tasks
    output.say(
        f"{cluster.name} is down; {counted(len(tasks), 'task')}, none is alive. Logs: {folder.logs}"
    )


def _ask(cluster: ClusterFolder, folder: RunFolder, *, now: bool) -> bool:
    """Whether the run is ending by itself; a supervisor that does not answer is killed here, with
    everything it has started."""
    from psclust.control.forced_stop import force_stop
    from psclust.control.supervisor_client import SupervisorClient

    try:
        with SupervisorClient(folder) as client:
            client.stop(
                "psclust down", exit_code=143, now=now, timeout_s=_NOW_S if now else _ANSWER_S
            )
    except NoRunError:
        # Perhaps it ended by itself just now, or its supervisor is dead and the guard is cleaning
        # up.
        deadline = time.monotonic() + _CLEANING_S
        while cluster.is_live() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if not cluster.is_live():
            return True
    else:
        return True
    if cluster.is_elsewhere():
        job = job_runs().cancel(cluster)
        output.say(f"the supervisor of {cluster.name} does not answer; its {job} was cancelled")
        return False
    output.say(
        f"the supervisor of {cluster.name} does not answer; "
        "it and everything that it has started is killed"
    )
    if not force_stop(folder, _DEADLINE_S):
        raise StartError(
            f"{cluster.name} is still alive {_DEADLINE_S:g} s after it was killed; "
            f"see {folder.supervisor_log}"
        )
    return False
