"""Programs that have not ended when the work is done."""

from __future__ import annotations

import os

from psclust.plan.task_plan import Deadlines
from psclust.spec.python_command import program_at
from psclust.supervise.run_state import RunPhase, RunState, TaskState


def describe_wait(state: RunState) -> str | None:
    """Whom the run waits for; None while its work goes on, or when it has ended."""
    late = _late(state)
    if state.phase is not RunPhase.FINISHING or state.plan is None or not late:
        return None
    limit = state.plan.deadlines.finish_s
    return f"the work is done; waiting for {_names(late)} to end, for {limit:g} s at most (deadlines.finish){_unseen(late)}"


def describe_stop(state: RunState, limits: Deadlines) -> str:
    """Who was stopped when the time was up."""
    late = _late(state)
    stopped = "was stopped" if len(late) == 1 else "were stopped"
    return f"{_names(late)} had not ended {limits.finish_s:g} s after the others and {stopped} (deadlines.finish){_unseen(late)}"


def _late(state: RunState) -> list[TaskState]:
    return [entry for entry in state.tasks.values() if entry.alive and entry.plan.role != "server" and not entry.joined]


def _names(late: list[TaskState]) -> str:
    return ", ".join(str(entry.plan.task) for entry in late)


def _unseen(late: list[TaskState]) -> str:
    hidden: dict[str, list[TaskState]] = {}
    for entry in late:
        if program_at(entry.plan.argv) is None:
            hidden.setdefault(os.path.basename(entry.plan.argv[0]), []).append(entry)
    commands = ", ".join(f"{command} ({_names(entries)})" for command, entries in hidden.items())
    return f"; psclust can tell that a Python program just serves, but not {commands}" if hidden else ""
