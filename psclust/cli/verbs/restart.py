"""`psclust restart`: a new attempt of one task."""

from __future__ import annotations

import click

from psclust.cli import output
from psclust.cli.common_options import run_dir_option
from psclust.cli.completions import names_and_tasks
from psclust.cli.run_selection import current_run, find_tasks
from psclust.errors import UsageError
from psclust.spec.cluster import Task


@click.command()
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="[NAME] TASK",
    shell_complete=names_and_tasks(live=True),
)
@run_dir_option
def command(words: tuple[str, ...], run_dir: str | None) -> None:
    """Stop TASK (worker:0) and start it again; it does not count against the restart limit. Returns
    when the new attempt runs."""
    from psclust.control.supervisor_client import SupervisorClient

    cluster, status, tasks = find_tasks(words, run_dir, live=True)
    before = {task.task: task for task in status.tasks}
    if len(tasks) != 1:
        raise UsageError(f"name one task to restart; {cluster.name} has {', '.join(before)}.")
    wanted = tasks[0]
    with SupervisorClient(current_run(cluster)) as client:
        client.restart(Task.parse(wanted))
        for status in client.watch():
            now = next((task for task in status.tasks if task.task == wanted), None)
            if (
                now is not None
                and now.attempt > before[wanted].attempt
                and now.phase in ("running", "done")
            ):
                output.say(f"{wanted}: attempt {now.attempt} runs (pid {now.pid})")
                return
    raise UsageError(
        f"{wanted}: the run ended before the task was started again; "
        f"see `psclust ps {cluster.name}`."
    )
