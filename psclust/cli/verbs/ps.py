"""`psclust ps`: the tasks of a run."""

from __future__ import annotations

from dataclasses import asdict

import click

from psclust.cli import output
from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.completions import run_names
from psclust.cli.run_selection import current_run, find_cluster, job_runs
from psclust.rundir.status import QUEUED, RunStatus, TaskStatus
from psclust.spec.cluster import LOCALHOST
from psclust.transport.process_facts import process_state


@click.command()
@click.argument("name", required=False, shell_complete=run_names(live=False))
@json_option
@run_dir_option
def command(name: str | None, as_json: bool, run_dir: str | None) -> None:
    """List the tasks of the live run, or of the last one: state, address, pid, attempts, exit
    code."""
    status = job_runs().status(current_run(find_cluster(name, run_dir, live=False)))
    if as_json:
        output.data(asdict(status))
        return
    output.say(_headline(status))
    if status.waiting:
        output.say(status.waiting)
    if status.phase == QUEUED:
        output.say("\n".join(status.notes))
    header = ("TASK", "STATE", "SINCE", "HOST", "ADDRESS", "PID", "ATTEMPT", "EXIT")
    output.table(header, [_row(status, task) for task in status.tasks])


def _headline(status: RunStatus) -> str:
    state = status.phase
    if status.ended:
        how = "stopped" if status.was_stopped else "failed"
        state = (
            "ended well" if status.ok else f"{how} (exit code {status.exit_code}): {status.text}"
        )
    return f"{status.name}  {status.run}  {state}"


def _row(status: RunStatus, task: TaskStatus) -> tuple[str, ...]:
    shown = [
        output.duration(status.age(task.since)),
        task.host,
        task.address,
        task.pid,
        task.attempt,
        task.exit_code,
    ]
    phase = (
        f"{task.phase}, frozen"
        if task.pid is not None and task.host == LOCALHOST.name and _is_frozen(task.pid)
        else task.phase
    )
    return (task.task, phase, *("-" if cell is None else str(cell) for cell in shown))


def _is_frozen(pid: int) -> bool:
    """Whether a process of this machine is stopped, by a signal or a debugger."""
    return process_state(pid) in ("T", "t")
