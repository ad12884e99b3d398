"""The tasks a run waits for: programs that still run when the work is done, and those that have to
end before all start again."""

from __future__ import annotations

import os

from psclust.plan.task_plan import Deadlines
from psclust.spec.python_command import program_at
from psclust.supervise.run_state import RunPhase, RunState, TaskPhase, TaskState


def describe_wait(state: RunState) -> str | None:
    """Which tasks a finishing run waits for, or one whose tasks start again; None for any other."""
    if state.phase is RunPhase.LIVE and state.together is not None:
        ending = [entry for entry in state.tasks.values() if entry.phase is TaskPhase.STOPPING]
        return state.together + (f"; waiting for {_names(ending)} to end" if ending else "")
    late = stragglers(state)
    if state.phase is not RunPhase.FINISHING or state.plan is None or not late:
        return None
    limit_s = state.plan.deadlines.finish_s
    return (
        f"the work is done; waiting for {_names(late)} to end, "
        f"for {limit_s:g} s at most (deadlines.finish){_hint(late)}"
    )


def describe_stop(state: RunState, limits: Deadlines) -> str:
    """Which tasks were stopped at the end of the finishing grace."""
    late = stragglers(state)
    stopped = "was stopped" if len(late) == 1 else "were stopped"
    return (
        f"{_names(late)} had not ended {limits.finish_s:g} s after the others and {stopped} "
        f"(deadlines.finish){_hint(late)}"
    )


def stragglers(state: RunState) -> list[TaskState]:
    """Programs alive that do not just serve."""
    return [
        entry
        for entry in state.tasks.values()
        if entry.alive and entry.plan.role != "server" and not entry.joined
    ]


def _names(late: list[TaskState]) -> str:
    return ", ".join(str(entry.plan.task) for entry in late)


def _hint(late: list[TaskState]) -> str:
    """The commands among them of which psclust cannot know whether they only serve."""
    commands: dict[str, list[TaskState]] = {}
    for entry in late:
        if program_at(entry.plan.argv) is None:
            commands.setdefault(os.path.basename(entry.plan.argv[0]), []).append(entry)
    named = ", ".join(f"{command} ({_names(entries)})" for command, entries in commands.items())
    return (
        f"; psclust can tell that a Python program just serves, but not {named}" if commands else ""
    )
