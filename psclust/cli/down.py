"""`psclust down`: end a run."""

from __future__ import annotations

import time

import click

from psclust.cli import output
from psclust.cli.common_options import run_dir_option
from psclust.cli.found import current_run, find_cluster, read_status
from psclust.cli.purge import purge as remove_what_is_left
from psclust.errors import NoRunError, StartError
from psclust.rundir.folder import ClusterFolder

_DEADLINE = 120.0
_POLL = 0.02


@click.command(short_help="End a run.")
@click.argument("name", required=False)
@click.option("--now", is_flag=True, help="KILL at once, without the grace that TERM gives.")
@click.option("--purge", is_flag=True, help="Then remove what its runs have left on other hosts: their folders, what was sent for them.")
@run_dir_option
def command(name: str | None, now: bool, purge: bool, run_dir: str | None) -> None:
    """End the live run: TERM to every task, KILL after the grace (deadlines.stop). Returns when nothing of it is alive.

    With --purge also one that has ended is meant. What tasks have written into the folders that were sent goes with them.
    """
    cluster = find_cluster(name, run_dir, live=not purge)
    if cluster.is_live():
        _end(cluster, now=now)
    if purge:
        kept = remove_what_is_left(cluster)
        output.say("\n".join([f"nothing of {cluster.name} is left on other hosts", *(f"{folder} is in use, and stays" for folder in kept)]))


def _end(cluster: ClusterFolder, *, now: bool) -> None:
    from psclust.agent.client import AgentClient

    folder = current_run(cluster)
    with AgentClient(folder) as client:
        try:
            client.stop("psclust down", exit_code=143, now=now)
        except NoRunError:
            # It ended by itself just now, or its supervisor is dead and the guard is cleaning up: either way the lock is let go soon.
            output.say(f"{cluster.name} is ending already")
    deadline = time.monotonic() + _DEADLINE
    while cluster.is_live():
        if time.monotonic() > deadline:
            raise StartError(f"{cluster.name} is still ending after {_DEADLINE:g} s; `psclust down --now` does not wait for its tasks.")
        time.sleep(_POLL)
    tasks = read_status(folder).tasks
    output.say(f"{cluster.name} is down; {len(tasks)} tasks, none is alive. Logs: {folder.path / 'logs'}")
