"""The rule for a run that makes no step (`deadlines.progress`): ask what each task does, show it,
end the run. Pure functions."""

from __future__ import annotations

from dataclasses import replace

from psclust.supervise.events import Explain, Outcome, Stage
from psclust.supervise.run_state import RunPhase, RunState, TaskState

_SHOWN_S = 1.0  # for `up` to show the explanation before tasks end


def check_progress(state: RunState, now: float) -> tuple[RunState, Explain | Outcome | None]:
    """What follows at this time."""
    limit_s = state.plan.deadlines.progress_s if state.plan else None
    training = [entry for entry in state.tasks.values() if _trains(entry)]
    if limit_s is None or state.phase is not RunPhase.LIVE or not training:
        return state, None
    if now - max(state.stepped, state.applied, *(entry.since for entry in training)) < limit_s:
        return replace(state, asked=False, explained=None) if state.asked else state, None
    if not state.asked:
        return replace(state, asked=True), Explain()
    if state.explained is not None and now - state.explained >= _SHOWN_S:
        return state, Outcome(False, 1, f"no step was made for {limit_s:g} s (deadlines.progress)")
    return state, None


def _trains(entry: TaskState) -> bool:
    """Whether it is a program that has work for other tasks."""
    return (
        entry.plan.role == "program"
        and entry.alive
        and entry.stage in (Stage.BEGUN, Stage.ANSWERED)
    )
