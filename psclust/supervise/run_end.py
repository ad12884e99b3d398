"""How a run ends: which tasks decide that, and the outcome in words. Pure functions of the run's
state."""

from __future__ import annotations

from psclust.supervise.events import Outcome, Stage
from psclust.supervise.exit_code import describe_exit, ended_by_signal
from psclust.supervise.restart_rule import (
    COLLATERAL_WINDOW_S,
    FailureRule,
    backoff_s,
    describe_limit,
    why_permanent,
)
from psclust.supervise.run_state import RunState, TaskPhase, TaskState


def deciders(state: RunState) -> list[TaskState]:
    """The tasks whose end is the end of the run.

    A task that has joined its server waits for the work of others, as all workers but the first do
    in many in-graph scripts, and decides nothing. If all tasks that should decide have joined, the
    other programs decide."""
    there = [
        entry
        for entry in state.tasks.values()
        if not entry.removed and entry.phase is not TaskPhase.DROPPED
    ]
    chosen = [entry for entry in there if entry.plan.decides]
    free = [entry for entry in chosen if entry.stage is not Stage.JOINED]
    if free or not chosen:
        return free
    return [
        entry for entry in there if entry.plan.role == "program" and entry.stage is not Stage.JOINED
    ]


def is_training_over(state: RunState) -> bool:
    """Whether the tasks that decide need no other task any more."""
    done = (Stage.TRAINED, Stage.LEAVING)
    chosen = deciders(state)
    return bool(chosen) and all(entry.finished or entry.stage in done for entry in chosen)


def describe_success(state: RunState) -> str:
    """`done`, or the exit codes other than 0 that counted as success."""
    odd = [
        entry for entry in state.tasks.values() if entry.phase is TaskPhase.DONE and entry.exit_code
    ]
    return (
        "; ".join(
            f"{entry.plan.task} {describe_exit(entry.exit_code or 0)}, "
            "which its ok_exit_codes allow"
            for entry in odd
        )
        or "done"
    )


def failure(
    state: RunState,
    entry: TaskState,
    now: float,
    *,
    exit_code: int,
    rule: FailureRule | None = None,
) -> Outcome:
    """The outcome after a death that nothing follows. Its cause is the earliest death within the
    window, which need not be the one that used up its restarts. rule: that forbids a restart; then
    a violent death is its own cause, because those before it have been survived."""
    recent = [death for death in state.deaths if now - death.at <= COLLATERAL_WINDOW_S]
    own = next(death for death in reversed(recent) if death.task == entry.plan.task)
    if rule is not None and ended_by_signal(own.code):
        recent = [death for death in recent if death is own or not ended_by_signal(death.code)]
    first = next(
        (death for death in recent if ended_by_signal(death.code) and death.task != own.task), own
    )
    others = dict.fromkeys(death.task for death in recent if death.task != first.task)
    text = f"{first.task} {first.how}"
    if first.task != own.task:
        text += f", and {own.task} {own.how} after it"
    if rule is not None:
        text += f"; {rule}"
    elif entry.restarts and backoff_s(entry, now) is None:
        text += f"; {describe_limit(entry)}"
    elif entry.restarts and (why := why_permanent(state, entry)) is not None:
        text += f"; {why}"
    hint = state.tasks[first.task].plan.failure_hint if first.task in state.tasks else None
    if hint is not None and first.diagnosis.of_role and first.diagnosis.remedy is None:
        text += f"; {hint}"
    return Outcome(
        False,
        exit_code,
        text,
        cause=first.task,
        attempt=first.attempt,
        collateral=tuple(others),
        remedy=first.diagnosis.remedy,
    )
