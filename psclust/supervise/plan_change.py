"""How a run takes over a plan: at once, or after its programs have saved. Pure functions.

Programs that can give back their data (`TaskPlan.leaves`) are asked to leave with SIGUSR2; their
servers stay until they have left. Every other task that a plan removes or changes gets TERM."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from psclust.plan.diff import compare
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.cluster import Task
from psclust.spec.jobs import WORKER
from psclust.spec.plurals import counted_tasks
from psclust.supervise.events import Action, Stepped
from psclust.supervise.fewer_workers import drop_homeless
from psclust.supervise.host_loss import lacks_host
from psclust.supervise.leaving_hosts import leave_without_successor
from psclust.supervise.run_state import AfterStop, Result, RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.stopping import ask_to_end, stop_task


def apply_plan(state: RunState, plan: Plan, now: float, *, afresh: bool = False) -> Result:
    """Take over a plan: unchanged tasks run on, changed ones end and start anew, removed ones end.
    afresh: all servers start anew, so that no variable stays where the old plan had it."""
    changes = compare(state.plan, plan) if state.plan else None
    servers = {entry.task for entry in plan.tasks if entry.role == "server"} if afresh else set()
    changed = {*(changes.changed if changes else ()), *servers}
    gone = [host for host in plan.lost if host not in state.leaving]
    lost = tuple(dict.fromkeys((*state.lost, *gone)))
    moving = state.moving or (state.plan is not None and plan.home != state.plan.home)
    before = state.tasks
    tasks: dict[Task, TaskState] = {}
    for entry in plan.tasks:
        old = before.get(entry.task)
        if old is None:
            attempt = state.attempts.get(entry.task, 0)
            tasks[entry.task] = TaskState(entry, attempt=attempt, since=now)
        elif old.removed:  # an earlier plan removed it, and it has not ended yet
            tasks[entry.task] = replace(_changed(old, entry, lost), after_stop=AfterStop.RESTART)
        elif entry.task in changed:
            tasks[entry.task] = _changed(old, entry, lost)
        else:
            tasks[entry.task] = replace(old, plan=entry)
    going = {task: entry for task, entry in before.items() if task not in tasks and entry.alive}
    state = replace(
        state,
        plan=plan,
        tasks={**tasks, **going},
        applied=now,
        began=state.began if state.plan else now,
        lost=lost,
        next_plan=None,
        moving=moving and not afresh,
        newcomers=_newcomers(state, plan),
    )
    ending = [*(task for task in tasks if task in changed and task in before), *going]
    actions: list[Action] = []
    # Servers stay for those that leave.
    for task in sorted(ending, key=lambda task: not before[task].plan.leaves):
        if state.tasks[task].alive:
            after = AfterStop.RESTART if task in tasks else AfterStop.REMOVE
            state, more = _end(state, before[task], state.tasks[task], now, after)
            actions += more
    state, more = leave_without_successor(state, now)
    return _without_delay(drop_homeless(state)), actions + more


def _newcomers(state: RunState, plan: Plan) -> frozenset[Task]:
    grown = {entry.task for entry in plan.tasks if entry.grows and entry.task.job == WORKER}
    joined = grown - state.tasks.keys() if state.plan is not None else set()
    return frozenset((state.newcomers & grown) | joined)


def _without_delay(state: RunState) -> RunState:
    """A lost host delays starts for the sake of tasks that start elsewhere; maybe there are
    none."""
    again = any(
        entry.pending or entry.after_stop is AfterStop.RESTART or lacks_host(state, entry)
        for entry in state.tasks.values()
    )
    return state if again or state.together else replace(state, no_start_before=None)


def save_and_apply(state: RunState, plan: Plan, now: float) -> Result:
    """USR1 to every program at work, so that it saves and ends; the plan is taken over, `afresh`,
    once all have ended."""
    if state.plan is None or state.phase is not RunPhase.LIVE:
        return apply_plan(state, plan, now)
    counts = Counter(entry.task.job for entry in plan.tasks)
    text = "all tasks start again from a checkpoint of now"
    state = replace(state, next_plan=plan).with_note(f"{text}: {counted_tasks(counts)}")
    actions: list[Action] = []
    for entry in list(state.tasks.values()):
        if entry.may_save and entry.phase is TaskPhase.RUNNING:
            state, more = ask_to_end(state, entry, now, AfterStop.RESTART, "USR1")
            actions += more
        elif entry.may_save:
            after = AfterStop.REMOVE if entry.removed else AfterStop.RESTART
            state, more = _stop(state, entry, now, after)
            actions += more
    return state, actions


def go_on_with_plan(state: RunState, now: float) -> Result:
    """What follows once programs have left or saved: the plan that waits for it is taken over, and
    the servers that stayed for them end."""
    if state.next_plan is not None and not any(entry.may_save for entry in state.tasks.values()):
        return apply_plan(state, state.next_plan, now, afresh=True)
    actions: list[Action] = []
    if not _leaving(state) and not state.moving:
        for entry in list(state.tasks.values()):
            kept = entry.alive and entry.phase is not TaskPhase.STOPPING
            if kept and entry.after_stop is not AfterStop.STAY:
                state, more = stop_task(state, entry, now, entry.after_stop)
                actions += more
    return state, actions


def note_step(state: RunState, event: Stepped, now: float) -> RunState:
    """A program has made a step: by those that have just started, the variables are there. That one
    has begun says nothing: a synchronous worker does so before they are."""
    newcomers = state.newcomers - {event.task}
    moving = state.moving and (event.task is None or _leaving(state))
    return replace(state, stepped=now, moving=moving, newcomers=newcomers)


def must_wait(state: RunState, plan: TaskPlan) -> bool:
    """Whether a program must not start yet: before a plan that is to come, or, if its graph knows
    all workers, beside those that leave with another graph."""
    if plan.role != "program":
        return False
    knows_all = plan.leaves and not plan.grows
    return state.next_plan is not None or (knows_all and _leaving(state))


def _end(
    state: RunState, before: TaskState, entry: TaskState, now: float, after: AfterStop
) -> Result:
    """`before`: with the plan that its process has."""
    if entry.phase is TaskPhase.RUNNING and before.plan.leaves:
        return ask_to_end(state, entry, now, after, "USR2")
    stays = before.plan.role == "server" and (state.moving or _leaving(state))
    if entry.phase is not TaskPhase.STOPPING and stays:
        return state.with_task(replace(entry, after_stop=after)), []
    return _stop(state, entry, now, after)


def _stop(state: RunState, entry: TaskState, now: float, after: AfterStop) -> Result:
    """One that is ending already keeps its time."""
    if entry.phase is TaskPhase.STOPPING:
        return state.with_task(replace(entry, after_stop=after)), []
    return stop_task(state, entry, now, after)


def _leaving(state: RunState) -> bool:
    return any(
        entry.leaving and entry.phase is TaskPhase.STOPPING for entry in state.tasks.values()
    )


def _changed(old: TaskState, plan: TaskPlan, lost: tuple[str, ...]) -> TaskState:
    if old.alive:
        return replace(old, plan=plan, at=old.where if old.where != plan.host else None)
    return replace(
        old, plan=plan, phase=TaskPhase.FAILED if plan.host in lost else TaskPhase.WAITING, due=None
    )
