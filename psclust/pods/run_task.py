"""One task in its pod, from its start to the end of the cluster."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from psclust.plan.task_environment import inherited
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.pods import names
from psclust.pods.cluster_end import ClusterEnd
from psclust.pods.pod_process import Interrupted, PodProcess, pause
from psclust.rundir.task_progress import FINISHED, SERVING, Progress
from psclust.spec.cluster import Task
from psclust.spec.python_command import through_entry

_POLL_S = 0.5
_DIAL_S = 2.0
_REMIND_S = 60.0

Say = Callable[[str], None]


def run_task(plan: Plan, task: Task, say: Say) -> int:
    """Wait for the servers that the task needs, run it, and stay until it may end; returns the
    pod's exit code. `say` gets lines for the user. Call `hold_signals` first."""
    entry = plan[task]
    end = _cluster_end(plan, task)
    try:
        _wait_for_servers(plan, entry, say)
    except Interrupted as interrupt:
        return interrupt.code
    env = inherited(os.environ) | dict(entry.env)
    Path(env["PSCLUST_PROGRESS"]).parent.mkdir(parents=True, exist_ok=True)
    process = PodProcess(through_entry(entry.argv, entry.recovery_wait_s), env, entry.cwd)
    end.watch()
    try:
        return _stay(plan, entry, process, end, say)
    except Interrupted as interrupt:
        process.stop(plan.deadlines.stop_s)
        return 0 if end.announced else interrupt.code


def _cluster_end(plan: Plan, task: Task) -> ClusterEnd:
    deciders = {}
    for entry in plan.tasks:
        port = int(entry.address.rpartition(":")[2]) if entry.address else names.SERVER_PORT
        if entry.decides:
            deciders[str(entry.task)] = (entry.host, names.end_port(port))
    return ClusterEnd(str(task), [str(entry.task) for entry in plan.tasks], deciders)


def _stay(plan: Plan, entry: TaskPlan, process: PodProcess, end: ClusterEnd, say: Say) -> int:
    """Until the task has failed, or has nothing left to do in this cluster."""
    finish_at: float | None = None
    others = any(other.role == "program" and not other.decides for other in plan.tasks)
    while True:
        code = process.reap()
        if code is not None and code not in entry.ok_exit_codes:
            return code or 1
        phase = _phase(entry)
        # If all deciders only serve, the other programs decide. Those do not answer on their end
        # ports, so the cluster goes on.
        done = code is not None or phase == FINISHED or (phase == SERVING and not others)
        if code is not None and not entry.decides:
            return 0
        if done and entry.decides and not end.announced:
            _announce(entry, end, say)
        if end.over:
            finish_at = finish_at or time.monotonic() + plan.deadlines.finish_s
            late = time.monotonic() > finish_at
            if late and not (entry.role == "server" or done):
                say(
                    f"{entry.task} still runs {plan.deadlines.finish_s:g} s after the others had "
                    "done their work; it is stopped."
                )
            if late or entry.role == "server" or (done and end.known_to_all):
                process.stop(plan.deadlines.stop_s)
                return 0
        pause(_POLL_S)


def _announce(entry: TaskPlan, end: ClusterEnd, say: Say) -> None:
    try:
        end.announce()
    except OSError as error:
        say(
            f"{entry.task} is done, but cannot tell the other pods: "
            f"the port after its server's: {error.strerror}."
        )


def _phase(entry: TaskPlan) -> str | None:
    """The program's progress file."""
    try:
        return Progress.from_json(
            Path(entry.env["PSCLUST_PROGRESS"]).read_text(encoding="utf-8")
        ).phase
    except (OSError, ValueError):
        return None


def _wait_for_servers(plan: Plan, entry: TaskPlan, say: Say) -> None:
    """Until every server that the task needs accepts connections, however long Kubernetes takes to
    start its pod. Raises Interrupted."""
    remind_at = time.monotonic() + 2 * _DIAL_S
    for task in entry.needs:
        address = plan[task].address or ""
        for reason in _refusals(address):
            if time.monotonic() > remind_at:
                say(f"{entry.task} waits for {task} at {address}: {reason}")
                remind_at = time.monotonic() + _REMIND_S
            pause(_POLL_S)


def _refusals(address: str) -> Iterator[str]:
    """Why the address does not answer, until it does."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), _DIAL_S):
                return
        except OSError as error:
            yield error.strerror or str(error)
