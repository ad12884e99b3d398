"""How a run ends: whose end it is, and what is said of it. Pure functions of its state."""

from __future__ import annotations

from psclust.spec.plurals import counted
from psclust.supervise.events import Outcome
from psclust.supervise.exit_code import describe_exit, is_violent
from psclust.supervise.run_state import RunState, TaskPhase, TaskState

# A failure this soon after a violent death elsewhere is taken for its consequence (seconds).
COLLATERAL_WINDOW = 30.0
# A program that fails so soon (seconds, with the import of TensorFlow) may have been told its place in a way it does not understand.
AT_ONCE = 10.0


def deciders(state: RunState) -> list[TaskState]:
    """A task that has joined its server waits for somebody else's work, as in many in-graph scripts all workers but the first do: it
    decides nothing. Where that is true of all who were to decide, the other programs do."""
    there = [entry for entry in state.tasks.values() if not entry.removed]
    chosen = [entry for entry in there if entry.plan.decides]
    free = [entry for entry in chosen if entry.finished or not entry.joined]
    if free or not chosen:
        return free
    return [entry for entry in there if entry.plan.role == "program" and (entry.finished or not entry.joined)]


def good_end(state: RunState) -> str:
    """`done`, and which exit codes were taken for success that are not."""
    odd = [entry for entry in state.tasks.values() if entry.phase is TaskPhase.DONE and entry.exit_code]
    return "; ".join(f"{entry.plan.task} {describe_exit(entry.exit_code or 0)}, which its ok_exit_codes allow" for entry in odd) or "done"


def failure(state: RunState, entry: TaskState, now: float, *, exit_code: int) -> Outcome:
    """The first cause is the earliest death within the window, not necessarily the one that used up its restarts."""
    recent = [death for death in state.deaths if now - death.at <= COLLATERAL_WINDOW]
    own = next(death for death in reversed(recent) if death.task == entry.plan.task)
    first = next((death for death in recent if is_violent(death.code) and death.task != own.task), own)
    others = dict.fromkeys(death.task for death in recent if death.task != first.task)
    text = f"{first.task} {describe_exit(first.code)}"
    if first.task != own.task:
        text += f", and {own.task} {describe_exit(own.code)} after it"
    if entry.restarts:
        text += f"; {own.task} had used its {counted(len(entry.restarts), 'restart')} within {entry.plan.restart.window_s:g} s"
    failure_hint = state.tasks[first.task].plan.failure_hint if first.task in state.tasks else None
    if failure_hint is not None and not is_violent(first.code) and first.lived <= AT_ONCE:
        text += f"; {failure_hint}"
    return Outcome(False, exit_code, text, cause=first.task, attempt=first.attempt, collateral=tuple(others))
