"""`psclust logs`: the output of tasks."""

from __future__ import annotations

import time
from pathlib import Path

import click

from psclust.cli import output
from psclust.cli.common_options import run_dir_option
from psclust.cli.follower import Follower
from psclust.cli.run_selection import find_tasks
from psclust.cli.streams import reader_has_left
from psclust.rundir.folder import RunFolder
from psclust.rundir.status_file import read_status
from psclust.spec.cluster import Task

_POLL_S = 0.1


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Begin with the last N lines of each task (default: all).")
@click.argument("words", nargs=-1, metavar="[NAME] [TASK...]")
@run_dir_option
def command(follow: bool, lines: int | None, words: tuple[str, ...], run_dir: str | None) -> int:
    """Show what the tasks of a run printed, all attempts. TASK is worker:0, or worker for all tasks of that job."""
    cluster, status, tasks = find_tasks(words, run_dir, live=False)
    folder = RunFolder(Path(status.folder))
    view = output.LiveView(tasks or [task.task for task in status.tasks])
    follower = Follower(folder, view, [Task.parse(task) for task in tasks], last=lines)
    while follow and not status.ended and cluster.is_live():
        if not follower.show(status):
            time.sleep(_POLL_S)
        if reader_has_left():
            return 141
        status = read_status(folder)
    follower.finish(status)
    view.close()
    return 0
