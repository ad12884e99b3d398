"""`psclust down`: end a run."""

from __future__ import annotations

import time

import click

from psclust.cli import output
from psclust.cli.bring_up import purge_hosts
from psclust.cli.common_options import run_dir_option
from psclust.cli.found import current_run, find_cluster, read_status
from psclust.errors import NoRunError, StartError

_DEADLINE = 120.0
_POLL = 0.02


@click.command(short_help="End a run.")
@click.argument("name", required=False)
@click.option("--now", is_flag=True, help="KILL at once, without the grace that TERM gives.")
@click.option("--purge", is_flag=True, help="Remove what the run left on other hosts; of a run that has ended, too.")
@run_dir_option
def command(name: str | None, now: bool, purge: bool, run_dir: str | None) -> None:
    """End the live run: TERM to every task, KILL after the grace (deadlines.stop). Returns when nothing of it is alive."""
    from psclust.agent.client import AgentClient

    cluster = find_cluster(name, run_dir, live=not purge)
    folder = current_run(cluster)
    if not cluster.is_live():
        purge_hosts(folder)
        output.say(f"{cluster.name} is down, and nothing of it is left on other hosts")
        return
    with AgentClient(folder) as client:
        try:
            client.stop("psclust down", exit_code=143, now=now, purge=purge)
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
