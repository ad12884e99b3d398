"""Waiting until a live run has made a change: its tasks run, and the training goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psclust.errors import NoRunError, StartError
from psclust.launch.live_change import Change, described, step_reached
from psclust.launch.status_stream import StatusStream
from psclust.plan.task_plan import Plan
from psclust.rundir.status import DROPPED, RunStatus, TaskStatus
from psclust.spec.cluster import Task

if TYPE_CHECKING:
    from psclust.control.supervisor_client import SupervisorClient

_FIRST_STEP_S = 120.0  # for programs to build their graph and make a step
_LOOK_S = 0.2
_UP = ("running", "done")


@dataclass(frozen=True, slots=True)
class Made:
    """seconds: until all tasks ran. paused_s: without a step, if the change pauses the training.
    step: the first one after it. ended: the status of a run that has ended meanwhile. replaced:
    another change came before this one was made."""

    seconds: float
    paused_s: float | None = None
    step: int | None = None
    ended: RunStatus | None = None
    replaced: bool = False


def wait_until_made(
    client: SupervisorClient, change: Change, note: Callable[[str], None], plan: Callable[[], Plan]
) -> Made:
    """`note` gets what the run has to say meanwhile; `plan` reads the run's. Raises StartError
    after a deadline."""
    limits = change.plan.deadlines
    began = time.monotonic()
    until = began + limits.finish_s + limits.stop_s + limits.start_s + _FIRST_STEP_S
    statuses = StatusStream(client.watch())
    status: RunStatus | None = None
    shown = set(change.notes)
    up_s: float | None = None
    while not statuses.over:
        status = statuses.latest(_LOOK_S) or status
        for text in status.notes if status else ():
            if text not in shown and not text.startswith(described(change)):
                shown.add(text)
                note(text)
        seconds = time.monotonic() - began
        if status is not None and status.ended:
            return Made(seconds, ended=status)
        if status is not None and up_s is None and is_made(change, status):
            up_s = seconds
        if up_s is None and _tasks(plan()) != _tasks(change.plan):
            return Made(seconds, replaced=True)
        if up_s is not None:
            step = _step(client)
            if not change.pauses or (step or 0) > change.step:
                return Made(up_s, seconds if change.pauses else None, step)
        if time.monotonic() > until:
            missing = _missing(change, status)
            raise StartError(
                f"{', '.join(missing) or 'the training'}: not there {until - began:.0f} s after "
                f"the change; see psclust why {change.plan.name}."
            )
    raise StartError(f"{change.plan.name}: its supervisor is gone; see psclust ps.")


def _tasks(plan: Plan) -> set[Task]:
    return {entry.task for entry in plan.tasks}


def is_made(change: Change, status: RunStatus) -> bool:
    """Whether every task of the new plan runs, in a new attempt if the change asks for one, and no
    other is left."""
    return not _missing(change, status) and len(status.tasks) == len(change.plan.tasks)


def _missing(change: Change, status: RunStatus | None) -> list[str]:
    found = {task.task: task for task in status.tasks} if status else {}
    anew = {str(task) for task in change.changes.changed}
    if change.saves:
        anew |= {str(entry.task) for entry in change.plan.tasks if entry.role != "side"}
    back = {str(task) for task in change.back}
    wanted = {str(entry.task): entry.role for entry in change.plan.tasks}
    return [
        task
        for task, role in wanted.items()
        if not _is_up(found.get(task), change.attempts.get(task, 0) if task in anew else 0)
        and not (task not in back and task in found and found[task].phase == DROPPED)
        and role != "side"
    ]


def _is_up(task: TaskStatus | None, attempt: int) -> bool:
    return task is not None and task.phase in _UP and task.attempt > attempt


def _step(client: SupervisorClient) -> int | None:
    """None also where the run is just ending; its last status says how."""
    try:
        return step_reached(client)
    except NoRunError:
        return None
