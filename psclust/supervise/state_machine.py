"""The rules of a run: events in, actions out.

Rule 1: all decisions are here and, about lost hosts, in `loss`, and nowhere else. `step` is a pure function of a state, an event and the
time; it starts nothing, reads no clock and touches no disk. The supervisor reports what happened and carries out what `step` answers.
Rule 2: this file does not know how a task is run, nor where: a fork server, SSH and a test's replayed history look the same to it.

A task moves through these phases; `TABLE` says what each event does in each of them.

    WAITING --start--> STARTING --(answers, or runs)--> RUNNING --exit 0--> DONE
       ^                  |                                |--exit != 0--> BACKOFF --time--> WAITING, or FAILED when the limit is reached
       +---- BACKOFF <----+                                |--asked to stop--> STOPPING --exit--> STOPPED, or WAITING for a restart

The run itself: LIVE until those who decide have ended (FINISHING: the other programs get their grace) or something ends it early
(STOPPING), then ENDED once no task is alive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from psclust.plan.diff import compare
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.events import (
    Action,
    Apply,
    Died,
    End,
    Event,
    Exited,
    HostLost,
    HostSilent,
    Joined,
    Kill,
    Move,
    Note,
    NotMoved,
    NotStarted,
    Outcome,
    Restart,
    Serving,
    Signal,
    Start,
    Started,
    Stop,
    Tick,
    Trained,
)
from psclust.supervise.exit_code import is_violent
from psclust.supervise.host_loss import has_no_place, lose, miss
from psclust.supervise.restart_rule import allowance
from psclust.supervise.run_end import COLLATERAL_WINDOW, deciders, failure, good_end
from psclust.supervise.run_state import RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.stragglers import describe_stop

Result = tuple[RunState, list[Action]]


def step(state: RunState, event: Event, now: float) -> Result:
    """The next state and what must be done, in order."""
    match event:
        case Apply():
            state, actions = _apply(state, event.plan, now)
        case Stop():
            state, actions = _stop(state, Outcome(event.ok, event.exit_code, event.reason), now)
        case Kill():
            actions = [Signal(task, "KILL") for task, entry in state.tasks.items() if entry.alive]
            state = replace(state, phase=RunPhase.STOPPING, outcome=state.outcome or Outcome(False, 130, event.reason))
        case HostSilent():
            state, actions = replace(state, silent=state.silent | {event.host} if event.silent else state.silent - {event.host}), []
        case HostLost():
            state, actions = _host_lost(state, event, now)
        case Note():
            state, actions = _note(state, event.text), []
        case NotMoved():
            state, actions = _not_moved(state, event, now)
        case Tick():
            state, actions = _tick(state, now)
        case _:
            state, actions = _task_event(state, event, now)
    state, more = _settle(state, now)
    return state, actions + more


def _task_event(state: RunState, event: Event, now: float) -> Result:
    task: Task = event.task  # type: ignore[union-attr]
    entry = state.tasks.get(task)
    handler = TABLE.get((entry.phase, type(event))) if entry else None
    if entry is None or handler is None or entry.plan.host in state.lost:
        return state, []
    return handler(state, entry, event, now)


def _put(state: RunState, entry: TaskState) -> RunState:
    return replace(state, tasks={**state.tasks, entry.plan.task: entry})


# ---------------------------------------------------------------------------------------------------- what an event does to one task


def _started(state: RunState, entry: TaskState, event: Started, now: float) -> Result:
    phase = TaskPhase.STARTING if entry.plan.serves else TaskPhase.RUNNING
    if entry.phase is TaskPhase.STOPPING:
        return _put(state, replace(entry, pid=event.pid)), [Signal(entry.plan.task, "TERM")]
    return _put(state, replace(entry, phase=phase, pid=event.pid, since=now)), []


def _serving(state: RunState, entry: TaskState, event: Serving, now: float) -> Result:
    return _put(state, replace(entry, phase=TaskPhase.RUNNING, served=True)), []


def _joined(state: RunState, entry: TaskState, event: Joined, now: float) -> Result:
    return _put(state, replace(entry, joined=True, finished=event.done)), []


def _trained(state: RunState, entry: TaskState, event: Trained, now: float) -> Result:
    return _put(state, replace(entry, trained=True, over=event.over)), []


def _not_started(state: RunState, entry: TaskState, event: NotStarted, now: float) -> Result:
    state = _put(state, replace(entry, phase=TaskPhase.FAILED, pid=None, since=now))
    outcome = Outcome(False, 3, f"{entry.plan.task} could not be started: {event.reason}", cause=entry.plan.task)
    return _stop(state, outcome, now)


def _exited(state: RunState, entry: TaskState, event: Exited, now: float) -> Result:
    plan, lived = entry.plan, now - entry.since
    entry = replace(entry, pid=None, exit_code=0 if entry.finished else event.code, since=now, due=None)
    if entry.finished or (event.code in plan.ok_exit_codes and not plan.serves):
        return _put(state, replace(entry, phase=TaskPhase.DONE)), []
    state = replace(state, deaths=(*state.deaths, Died(plan.task, event.code, now, entry.attempt, lived)))
    if state.phase is RunPhase.STOPPING or (state.phase is RunPhase.FINISHING and plan.role != "server"):
        return _put(state, replace(entry, phase=TaskPhase.FAILED)), []
    never_served = plan.serves and not entry.served and event.code > 0
    delay = (
        None if never_served or not _restartable(state, plan, event.code, now) else allowance(plan.restart, entry.restarts, now, plan.task)
    )
    if delay is not None:
        restarts = (*entry.restarts, now)
        return _put(state, replace(entry, phase=TaskPhase.BACKOFF, due=now + delay, restarts=restarts)), []
    state = _put(state, replace(entry, phase=TaskPhase.FAILED))
    if plan.role == "side":
        return state, []
    return _stop(state, failure(state, entry, now, exit_code=3 if never_served else 1), now)


def _restartable(state: RunState, plan: TaskPlan, code: int, now: float) -> bool:
    if plan.restart.when == "signal":
        others = (death for death in state.deaths[:-1] if death.task != plan.task)
        if any(entry.plan.host in state.silent for task, entry in state.tasks.items() if task != plan.task):
            return True  # perhaps because of what became of those
        return is_violent(code) or any(is_violent(death.code) and now - death.at <= COLLATERAL_WINDOW for death in others)
    return plan.restart.when == "failure"


def _never_started(state: RunState, entry: TaskState, event: NotStarted, now: float) -> Result:
    return _stopped(state, entry, Exited(event.task, entry.exit_code or 0), now)


def _stopped(state: RunState, entry: TaskState, event: Exited, now: float) -> Result:
    if entry.removed:
        return replace(state, tasks={task: other for task, other in state.tasks.items() if task != entry.plan.task}), []
    phase = TaskPhase.WAITING if entry.again else TaskPhase.DONE if entry.finished else TaskPhase.STOPPED
    code = 0 if entry.finished else event.code
    return _put(state, replace(entry, phase=phase, pid=None, due=None, again=False, exit_code=code, since=now)), []


def _restart(state: RunState, entry: TaskState, event: Restart, now: float) -> Result:
    if not entry.alive:
        return _put(state, replace(entry, phase=TaskPhase.WAITING, due=None)), []
    state, actions = _stop_task(state, entry, now)
    return _put(state, replace(state.tasks[entry.plan.task], again=True)), actions


def _restart_while_stopping(state: RunState, entry: TaskState, event: Restart, now: float) -> Result:
    return _put(state, replace(entry, again=not entry.removed)), []


Handler = Callable[..., Result]
TABLE: dict[tuple[TaskPhase, type], Handler] = {
    (TaskPhase.STARTING, Started): _started,
    (TaskPhase.STARTING, Serving): _serving,
    (TaskPhase.STARTING, NotStarted): _not_started,
    (TaskPhase.STARTING, Exited): _exited,
    (TaskPhase.STARTING, Restart): _restart,
    (TaskPhase.RUNNING, Serving): _serving,
    (TaskPhase.RUNNING, Joined): _joined,
    (TaskPhase.RUNNING, Trained): _trained,
    (TaskPhase.RUNNING, Exited): _exited,
    (TaskPhase.RUNNING, Restart): _restart,
    (TaskPhase.STOPPING, Started): _started,
    (TaskPhase.STOPPING, NotStarted): _never_started,
    (TaskPhase.STOPPING, Exited): _stopped,
    (TaskPhase.STOPPING, Restart): _restart_while_stopping,
    (TaskPhase.BACKOFF, Restart): _restart,
    (TaskPhase.DONE, Restart): _restart,
    (TaskPhase.STOPPED, Restart): _restart,
    (TaskPhase.FAILED, Restart): _restart,
}


# ------------------------------------------------------------------------------------------------------------- what happens to the run


def _apply(state: RunState, plan: Plan, now: float) -> Result:
    """Take over a new plan: what is unchanged runs on, what differs is stopped and started anew."""
    changes = compare(state.plan, plan) if state.plan else None
    began = state.began if state.plan else now
    lost = tuple(dict.fromkeys((*state.lost, *plan.lost)))
    tasks: dict[Task, TaskState] = {}
    actions: list[Action] = []
    for entry in plan.tasks:
        old = state.tasks.get(entry.task)
        if old is None:
            tasks[entry.task] = TaskState(entry, since=now)
        elif old.removed:  # still on its way out of an earlier plan
            tasks[entry.task] = replace(old, plan=entry, removed=False, again=True)
        elif changes and entry.task in changes.changed:
            tasks[entry.task] = _changed(old, entry, lost)
        else:
            tasks[entry.task] = replace(old, plan=entry)
    state = replace(state, plan=plan, tasks={**tasks, **_leaving(state, plan)}, applied=now, began=began, lost=lost)
    for task in [*(changes.changed if changes else ()), *(changes.removed if changes else ())]:
        if state.tasks[task].alive:
            state, more = _stop_task(state, state.tasks[task], now)
            state = _put(state, replace(state.tasks[task], again=task in tasks, removed=task not in tasks))
            actions += more
    return state, actions


def _changed(old: TaskState, plan: TaskPlan, lost: tuple[str, ...]) -> TaskState:
    if old.alive:
        return replace(old, plan=plan)
    return replace(old, plan=plan, phase=TaskPhase.FAILED if plan.host in lost else TaskPhase.WAITING, due=None)


def _leaving(state: RunState, plan: Plan) -> dict[Task, TaskState]:
    kept = {entry.task for entry in plan.tasks}
    return {task: entry for task, entry in state.tasks.items() if task not in kept and entry.alive}


def _stop_task(state: RunState, entry: TaskState, now: float) -> Result:
    assert state.plan is not None
    if entry.phase is TaskPhase.STOPPING:
        return state, []
    stopping = replace(entry, phase=TaskPhase.STOPPING, due=now + state.plan.deadlines.stop_s)
    return _put(state, stopping), [Signal(entry.plan.task, "TERM")]


def _stop(state: RunState, outcome: Outcome, now: float) -> Result:
    """End the run: TERM to everybody alive, KILL after the grace. The first outcome stands."""
    if state.phase in (RunPhase.STOPPING, RunPhase.ENDED):
        return state, []
    state = replace(state, phase=RunPhase.STOPPING, outcome=state.outcome or outcome)
    actions: list[Action] = []
    for task, entry in list(state.tasks.items()):
        if entry.alive:
            state, more = _stop_task(state, entry, now)
            state = _put(state, replace(state.tasks[task], again=False))
            actions += more
        elif entry.phase in (TaskPhase.WAITING, TaskPhase.BACKOFF):
            state = _put(state, replace(entry, phase=TaskPhase.STOPPED, due=None))
    return state, actions


def _note(state: RunState, text: str) -> RunState:
    return state if text in state.notes else replace(state, notes=(*state.notes, text))


def _host_lost(state: RunState, event: HostLost, now: float) -> Result:
    return _follow_verdict(*lose(state, event, now), now)


def _follow_verdict(state: RunState, verdict: Move | Outcome | Note | None, now: float) -> Result:
    if isinstance(verdict, Note):
        return _note(state, verdict.text), []
    if isinstance(verdict, Outcome):
        return _stop(state, verdict, now)
    return state, [verdict] if verdict else []


def _not_moved(state: RunState, event: NotMoved, now: float) -> Result:
    state = replace(state, hold=None)
    if not event.move.vital:
        return state, []
    return _stop(state, replace(event.move.otherwise, text=f"{event.move.otherwise.text}; {event.why}"), now)


def _tick(state: RunState, now: float) -> Result:
    actions: list[Action] = []
    for task, entry in list(state.tasks.items()):
        if entry.due is None or now < entry.due:
            continue
        if entry.phase is TaskPhase.BACKOFF:
            state = _put(state, replace(entry, phase=TaskPhase.WAITING, due=None))
        elif entry.phase is TaskPhase.STOPPING:
            state = _put(state, replace(entry, due=None))
            actions.append(Signal(task, "KILL"))
    state, more = _deadlines(state, now)
    return state, actions + more


def _deadlines(state: RunState, now: float) -> Result:
    if state.plan is None or state.phase in (RunPhase.STOPPING, RunPhase.ENDED):
        return state, []
    limits = state.plan.deadlines
    if limits.run_s is not None and now - state.began >= limits.run_s:
        text = f"the time limit of {limits.run_s:g} s was reached (deadlines.run)"
        return _stop(state, Outcome(limits.run_exit_code == 0, limits.run_exit_code, text), now)
    missing = [task for task, entry in state.tasks.items() if entry.plan.serves and entry.phase in (TaskPhase.WAITING, TaskPhase.STARTING)]
    if missing and state.hold is None and now - max(state.applied, max(state.tasks[task].since for task in missing)) >= limits.start_s:
        names = ", ".join(map(str, missing))
        text = f"{names} did not answer within {limits.start_s:g} s (deadlines.start)"
        return _stop(state, Outcome(False, 3, text, cause=missing[0], attempt=state.tasks[missing[0]].attempt), now)
    if state.phase is RunPhase.FINISHING and state.due is not None and now >= state.due:
        return _stop(state, Outcome(True, 0, describe_stop(state, limits)), now)
    return state, []


def _settle(state: RunState, now: float) -> Result:
    """What follows from the state alone: start those whose servers answer, finish when the deciders are done, end when nobody is left."""
    if state.phase is RunPhase.ENDED or state.plan is None:
        if state.phase is RunPhase.STOPPING:
            return replace(state, phase=RunPhase.ENDED), [End(state.outcome or Outcome(True, 0, "stopped"))]
        return state, []
    actions: list[Action] = []
    if state.phase in (RunPhase.LIVE, RunPhase.FINISHING):
        state, actions = _follow_verdict(*miss(state, now), now)
        state, more = _start_ready(state, now)
        actions += more
        state, more = _finish(state, now)
        actions += more
    if state.phase is RunPhase.STOPPING and not any(entry.alive for entry in state.tasks.values()):
        assert state.outcome is not None
        return replace(state, phase=RunPhase.ENDED), [*actions, End(state.outcome)]
    return state, actions


def _start_ready(state: RunState, now: float) -> Result:
    if state.hold is not None:
        if now < state.hold or any(entry.phase is TaskPhase.STOPPING or has_no_place(state, entry) for entry in state.tasks.values()):
            return state, []
        state = replace(state, hold=None, applied=now)
    actions: list[Action] = []
    answering = {task for task, entry in state.tasks.items() if entry.phase is TaskPhase.RUNNING}
    for entry in list(state.tasks.values()):
        if entry.phase is TaskPhase.WAITING and answering.issuperset(entry.plan.needs):
            fresh = TaskState(entry.plan, TaskPhase.STARTING, entry.attempt + 1, now, exit_code=entry.exit_code, restarts=entry.restarts)
            state = _put(state, fresh)
            actions.append(Start(entry.plan, fresh.attempt))
    return state, actions


def _finish(state: RunState, now: float) -> Result:
    assert state.plan is not None
    deciding = deciders(state)
    if not deciding or any(entry.phase is not TaskPhase.DONE and not entry.finished for entry in deciding):
        return replace(state, phase=RunPhase.LIVE, due=None), []
    working = [entry for entry in state.tasks.values() if entry.plan.role != "server" and not entry.joined]
    if any(entry.alive or entry.phase in (TaskPhase.WAITING, TaskPhase.BACKOFF) for entry in working):
        due = state.due if state.phase is RunPhase.FINISHING else now + state.plan.deadlines.finish_s
        return replace(state, phase=RunPhase.FINISHING, due=due), []
    return _stop(state, Outcome(True, 0, good_end(state)), now)
