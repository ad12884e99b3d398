"""The messages of `up`: what the cluster waits for, that it is up, how the run ended."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from psclust.cli import output, streams
from psclust.cli.follower import Follower
from psclust.plan.task_plan import Plan
from psclust.rundir.events_file import read_events
from psclust.rundir.folder import RunFolder
from psclust.rundir.run_totals import RunTotals, run_totals
from psclust.rundir.status import DROPPED, RunStatus
from psclust.spec.cluster import LOCALHOST
from psclust.spec.jobs import BETWEEN_GRAPH, replica_jobs
from psclust.spec.plurals import counted


def is_up(plan: Plan, status: RunStatus) -> bool:
    """Whether all tasks that the run needs have started and every server answers."""
    needed = [task for task in status.tasks if task.role != "side" and task.phase != DROPPED]
    listening = {str(entry.task) for entry in plan.tasks if entry.listens}
    fit = all(
        task.phase in ("running", "done") and (task.served or task.task not in listening)
        for task in needed
    )
    return status.phase == "live" and bool(needed) and fit


def render_waits(plan: Plan, status: RunStatus) -> str:
    """Why the cluster is not up yet; empty if there is nothing to report."""
    loads: dict[str, list[str]] = {}
    silent = []
    preloads = {str(entry.task): entry.preload for entry in plan.tasks}
    listening = {str(entry.task) for entry in plan.tasks if entry.listens}
    for task in status.tasks:
        preload = preloads.get(task.task)
        if task.phase == "starting" and task.pid is None and preload is not None:
            loads.setdefault(
                "TensorFlow's library" if preload == "library" else "TensorFlow", []
            ).append(task.task)
        elif task.pid is not None and task.task in listening and not task.served:
            silent.append(f"{task.task} to answer at {task.address}")
    parts = [f"loading {what} for {', '.join(tasks)}" for what, tasks in loads.items()]
    return "; ".join([*parts, *([f"waiting for {', '.join(silent)}"] if silent else [])])


def render_up(plan: Plan, status: RunStatus) -> str:
    """One line; without a program, also how to dial the servers."""
    without = {task.task for task in status.tasks if task.phase == DROPPED}
    jobs = Counter(entry.task.job for entry in plan.tasks if str(entry.task) not in without)
    text = f"{plan.name} is up: " + ", ".join(counted(count, job) for job, count in jobs.items())
    if all(task.serves for task in plan.tasks):
        worker = next(
            (task for task in plan.tasks if task.task.job in replica_jobs(BETWEEN_GRAPH)),
            plan.tasks[0],
        )
        spec = plan.cluster.as_dict()
        text += (
            f"\ndial it: tf.compat.v1.Session('grpc://{worker.address}')"
            f"\nthe cluster: tf.train.ClusterSpec({spec})"
            f"\nstop it: Ctrl-C, or psclust down {plan.name}"
        )
    return text


def report_end(status: RunStatus, follower: Follower) -> int:
    """Print how the run ended; returns the exit code. Lines that `follower` has just shown on the
    same terminal are not repeated."""
    took = output.duration(
        max((task.since for task in status.tasks), default=status.began) - status.began
    )
    folder = RunFolder(Path(status.folder))
    if status.ok or status.was_stopped:
        extra = "" if status.text in (None, "done") else f": {status.text}"
        output.say(
            f"psclust: {status.name} "
            f"{'ended well' if status.ok else 'was stopped'} after {took}{extra}"
        )
        for line in [
            *_came_to(folder),
            f"its output: {_short(status.folder)}/logs",
            f"a page about it: psclust report {status.name}",
        ]:
            output.say(f"psclust: {line}")
    else:
        output.error(
            "\n".join(
                [_failure(status, took, is_above=_is_above(status, follower)), *_came_to(folder)]
            )
        )
        output.error(
            f"all tasks: psclust ps {status.name}; their output: psclust logs {status.name}; "
            f"a page: psclust report {status.name}"
        )
    return status.exit_code if status.exit_code is not None else 1


def _came_to(folder: RunFolder) -> list[str]:
    """The totals, and where the model is."""
    totals = run_totals(read_events(folder.events))
    return [
        *render_totals(totals),
        *([f"its model{render_model(totals)}"] if totals.model_folder else []),
    ]


def render_model(totals: RunTotals) -> str:
    """To append to `its model`; names another host."""
    elsewhere = f" on {totals.model_host}" if totals.model_host != LOCALHOST.name else ""
    return f"{elsewhere}: {_short(totals.model_folder or '')}"


def render_totals(totals: RunTotals) -> list[str]:
    """Steps and the best evaluation; where the time went, and restarts. Lines without anything to
    say are left out."""
    first = [counted(totals.steps, "step")] if totals.steps else []
    if totals.metrics:
        values = ", ".join(f"{name} {value:.4g}" for name, value in totals.metrics.items())
        first.append(f"best evaluation, at step {totals.metrics_step}: {values}")
    times = {
        "start": totals.start_s,
        "training": totals.training_s,
        "waiting for tasks to end": totals.waiting_s,
        "saving": totals.saving_s,
    }
    second = [
        f"{name} {output.duration(seconds)}"
        for name, seconds in times.items()
        if seconds is not None
    ]
    second += [counted(totals.restarts, "restart")] if totals.restarts else []
    return [text for text in ("; ".join(first), ", ".join(second)) if text]


def _short(path: str) -> str:
    home = os.path.expanduser("~")
    return path.replace(home, "~", 1) if home != "/" and path.startswith(f"{home}/") else path


def _is_above(status: RunStatus, follower: Follower) -> bool:
    lost = any(task.task == status.cause and task.lost_output for task in status.tasks)
    return follower.has_just_shown(status.cause) and streams.are_one() and not lost


def _failure(status: RunStatus, took: str, *, is_above: bool) -> str:
    lines = [
        f"{status.name} failed after {took}: {status.text}",
        *([status.remedy] if status.remedy else []),
    ]
    if status.cause_tail and is_above:
        lines.append(f"the last lines of {status.cause} stand above")
    elif status.cause_tail:
        lines += [
            f"the last lines of {status.cause}:",
            *(f"  {line}" for line in status.cause_tail),
        ]
    elif status.cause_log:
        lines.append(f"{status.cause} printed nothing")
    if status.collateral:
        lines.append(f"failed only because of it: {', '.join(status.collateral)}")
    if status.cause_log:
        lost = next((task.lost_output for task in status.tasks if task.task == status.cause), 0)
        lines.append(
            f"its log, without {lost} bytes for which there was no room: {status.cause_log}"
            if lost
            else f"its whole log: {status.cause_log}"
        )
    return "\n".join(lines)
