"""The rules for a death after which all tasks of the cluster start again (`restart-all`): for
scripts that cannot go on when another task has lost its memory, and resume from a checkpoint."""

from __future__ import annotations

from dataclasses import replace

from psclust.spec.cluster import Task
from psclust.spec.jobs import RESTART_ALL
from psclust.supervise.events import Action, Death, HostLost, Stage
from psclust.supervise.host_loss import lacks_host, replace_tasks
from psclust.supervise.restart_rule import FailureRule, failure_rule
from psclust.supervise.run_state import AfterStop, Result, RunState, TaskPhase, TaskState
from psclust.supervise.stopping import follow, stop_task


def restart_with_dead(state: RunState, death: Death, rule: FailureRule, now: float) -> Result:
    """The task that died has got its restart and waits in BACKOFF: all others start with it."""
    first = f"attempt {death.attempt} of {death.task}" if death.attempt > 1 else str(death.task)
    return _start_all_again(state, death.task, rule, f"{first} {death.how}", now)


def restart_with_lost(state: RunState, event: HostLost, now: float) -> Result:
    """The tasks of a lost host are about to move: all others start with them if the rule for one of
    them says so."""
    for entry in state.tasks.values():
        rule = failure_rule(state, entry.plan)
        lost = entry.plan.host == event.host and lacks_host(state, entry)
        if lost and rule is not None and rule.value == RESTART_ALL:
            why = f"{entry.plan.task} was on {event.host}, which is lost"
            return _start_all_again(state, entry.plan.task, rule, why, now)
    return state, []


def holds_others(state: RunState, entry: TaskState) -> bool:
    """Whether a back-off that is just over holds up the start of all tasks."""
    return (
        state.together is not None
        and state.no_start_before is not None
        and entry.phase is TaskPhase.BACKOFF
        and entry.due is not None
        and entry.due <= state.no_start_before
    )


def _start_all_again(
    state: RunState, first: Task, rule: FailureRule, why: str, now: float
) -> Result:
    """Stop every task of the cluster. None starts before all have ended and every back-off is over.
    What had ended well starts again as well: what it did since the last checkpoint is lost, and a
    synchronous step may need it."""
    members = [entry for entry in state.tasks.values() if _is_member(entry)]
    back_offs = [
        entry.due for entry in members if entry.phase is TaskPhase.BACKOFF and entry.due is not None
    ]
    not_before = max([state.no_start_before or now, *back_offs])
    state = state.with_note(f"{why}; all tasks start again ({rule})")
    text = f"all tasks start again with {first} ({rule})"
    state = replace(state, together=text, no_start_before=not_before)
    actions: list[Action] = []
    homeless: list[TaskState] = []
    for entry in members:
        if entry.alive:
            state, more = stop_task(state, entry, now, AfterStop.RESTART)
            actions += more
        elif entry.phase is TaskPhase.DONE:
            is_lost = entry.plan.host in state.lost
            phase = TaskPhase.FAILED if is_lost else TaskPhase.WAITING
            entry = replace(entry, phase=phase, stage=Stage.BEGUN, since=now)
            state = state.with_task(entry)
            homeless += [entry] if is_lost else []
    if not homeless:
        return state, actions
    state, verdict = replace_tasks(state, homeless, HostLost(homeless[0].plan.host, text), now)
    state, more = follow(state, verdict, now)
    return state, actions + more


def _is_member(entry: TaskState) -> bool:
    """Whether it starts again with all others: a task of the cluster, or a program at work beside
    it. An observer outside of the cluster only reads what training writes."""
    in_cluster = entry.plan.address is not None
    if entry.removed or entry.plan.restart.when == "never":
        return False
    if entry.alive or entry.pending:
        return in_cluster or entry.plan.role != "side"
    return in_cluster and entry.phase is TaskPhase.DONE
