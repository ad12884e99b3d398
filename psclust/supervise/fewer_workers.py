"""The rules for workers that an elastic run can do without (jobs.worker.min): one that fails for
good, or whose host is lost, is dropped while enough others are left. Pure functions."""

from __future__ import annotations

from dataclasses import replace

from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.spec.jobs import WORKER
from psclust.spec.plurals import counted
from psclust.supervise.events import Move, Outcome
from psclust.supervise.restart_rule import describe_loss
from psclust.supervise.run_state import Result, RunPhase, RunState, TaskPhase, TaskState


def is_dispensable(state: RunState, plan: TaskPlan) -> bool:
    """Whether the run may go on without the task. The first worker leads the training where there
    is no chief."""
    fewer = state.plan is not None and state.plan.min_workers is not None
    return fewer and plan.task.job == WORKER and plan.task.index > 0


def may_drop(state: RunState, entry: TaskState) -> bool:
    """Whether enough workers are left without it. One that has joined, and made no step, is not
    missed."""
    if entry.plan.task in state.newcomers:
        return True
    if state.plan is None or not is_dispensable(state, entry.plan):
        return False
    left = sum(other.plan.task != entry.plan.task for other in workers(state))
    return left >= (state.plan.min_workers or 0)


def drop_dead(state: RunState, entry: TaskState, otherwise: Outcome, now: float) -> Result:
    """After a death that allows no other attempt. Where the graph of the others knows the worker,
    they need a plan without it."""
    if not entry.plan.grows:
        gone = (*dropped(state), entry.plan.task)
        return state, [Move(state.given_up, otherwise, vital=True, absent=gone)]
    state = state.with_task(replace(entry, phase=TaskPhase.DROPPED))
    left = counted(len(workers(state)), "worker")
    return state.with_note(f"{describe_loss(state, entry, now)}, with {left}"), []


def drop_homeless(state: RunState) -> RunState:
    """After a plan was taken over: the run does without workers for which there is no place. One
    whose failure led to the plan starts again if it got another place."""
    for entry in list(state.tasks.values()):
        homeless = entry.plan.host in state.given_up
        if entry.alive or not is_dispensable(state, entry.plan):
            continue
        if homeless and (entry.pending or entry.phase is TaskPhase.FAILED):
            state = state.with_task(replace(entry, phase=TaskPhase.DROPPED, due=None))
        elif not homeless and entry.phase is TaskPhase.FAILED and state.phase is RunPhase.LIVE:
            state = state.with_task(replace(entry, phase=TaskPhase.WAITING))
    return state


def dropped(state: RunState) -> tuple[Task, ...]:
    return tuple(task for task, entry in state.tasks.items() if entry.phase is TaskPhase.DROPPED)


def workers(state: RunState) -> list[TaskState]:
    """Those that work, or will."""
    over = (TaskPhase.DROPPED, TaskPhase.FAILED)
    return [
        entry
        for task, entry in state.tasks.items()
        if task.job == WORKER and not entry.removed and entry.phase not in over
    ]
