"""`psclust attach`: watch a live run as its own `up` would."""

from __future__ import annotations

import time

import click

from psclust.cli import output
from psclust.cli.common_options import run_dir_option
from psclust.cli.completions import run_names
from psclust.cli.follower import Follower
from psclust.cli.run_selection import current_run, find_cluster, job_runs
from psclust.cli.streams import reader_has_left
from psclust.cli.summary import report_end

_POLL_S = 0.1


@click.command()
@click.argument("name", required=False, shell_complete=run_names(live=True))
@run_dir_option
def command(name: str | None, run_dir: str | None) -> int:
    """Show what the tasks of a live run print, from the beginning, and how far they are; end with
    the run, and with its exit code. Ctrl-C stops the watching, not the run (`psclust down` does
    that)."""
    cluster = find_cluster(name, run_dir, live=True)
    folder = current_run(cluster)
    runs = job_runs()
    status = runs.status(folder)
    view = output.LiveView([task.task for task in status.tasks])
    follower = Follower(folder, view)
    try:
        while not status.ended and cluster.is_live():
            if not follower.show(status):
                time.sleep(_POLL_S)
            if reader_has_left():
                return 141
            status = runs.status(folder)
    except KeyboardInterrupt:
        view.note(f"{cluster.name} goes on: psclust attach, psclust down")
        view.close()
        return 0
    follower.finish(status)
    view.close()
    return report_end(status, follower)
