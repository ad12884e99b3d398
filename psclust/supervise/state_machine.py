"""The rules of a run: events in, actions out.

Rule 1: every decision is made here, or in the pure functions called from here: `host_loss`,
`restart_rule`, `run_end`. `step` is a pure function of a state, an event and the time; it starts
nothing, reads no clock and touches no disk. The supervisor reports what happened and carries out
what `step` returns.
Rule 2: this file does not know how or where a task runs: a fork server, SSH and a test's replayed
history look the same to it.

A task moves through these phases; `TABLE` gives the effect of each event in each of them.

    WAITING --start--> STARTING --(answers, or runs)--> RUNNING --exit 0--> DONE
       ^                  |                                |--exit != 0--> BACKOFF --time-->
       +---- BACKOFF <----+                                |    WAITING; FAILED at the limit
                                                           |--stopped--> STOPPING --exit-->
                                                                STOPPED; WAITING for a restart

The run is LIVE until the tasks that decide have ended (FINISHING: the other programs get their
grace) or something ends it early (STOPPING), and ENDED once no task is alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from psclust.plan.diff import compare
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.diagnosis import diagnose
from psclust.supervise.events import (
    Action,
    Apply,
    Death,
    End,
    Event,
    Exited,
    Explain,
    Explained,
    HostLost,
    HostSilent,
    Kill,
    Looked,
    Move,
    Note,
    NotMoved,
    NotStarted,
    Outcome,
    Progressed,
    Reported,
    Restart,
    Serving,
    Signal,
    Stage,
    Start,
    Started,
    Stepped,
    Stop,
    TaskEvent,
    Tick,
)
from psclust.supervise.host_loss import lacks_host, lose_host, lose_missed_hosts
from psclust.supervise.progress_limit import check_progress
from psclust.supervise.restart_rule import describe_loss, never_served, restart_delay_s
from psclust.supervise.run_end import deciders, describe_success, failure
from psclust.supervise.run_state import AfterStop, RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.silence import check_silence, conclude, note_sign
from psclust.supervise.stragglers import describe_stop

Result = tuple[RunState, list[Action]]


def step(state: RunState, event: Event, now: float) -> Result:
    """The next state, and the actions to carry out, in order."""
    actions: list[Action] = []
    state = note_sign(state, event, now)
    match event:
        case Apply():
            state, actions = _apply(state, event.plan, now)
        case Stop():
            stop = _save_and_stop if event.save else _stop
            state, actions = stop(state, Outcome(event.ok, event.exit_code, event.reason), now)
        case Kill():
            actions = [Signal(task, "KILL") for task, entry in state.tasks.items() if entry.alive]
            state = replace(
                state,
                phase=RunPhase.STOPPING,
                outcome=state.outcome or Outcome(False, event.exit_code, event.reason),
            )
        case HostSilent():
            state = replace(
                state,
                silent=state.silent | {event.host} if event.silent else state.silent - {event.host},
            )
        case HostLost():
            state, actions = _follow_verdict(*lose_host(state, event, now), now)
        case Progressed():
            pass  # recorded only
        case Stepped():
            state = replace(state, stepped=now)
        case Explained():
            state = replace(_note(state, event.text), explained=now)
        case Looked():
            state = conclude(state, event, now)
        case Note():
            state = _note(state, event.text)
        case NotMoved():
            state, actions = _not_moved(state, event, now)
        case Tick():
            state, actions = _tick(state, now)
        case _:
            state, actions = _task_event(state, event, now)
    state, more = _settle(state, now)
    return state, actions + more


def _task_event(state: RunState, event: TaskEvent, now: float) -> Result:
    entry = state.tasks.get(event.task)
    handler = TABLE.get(entry.phase, {}).get(type(event)) if entry else None
    if entry is None or handler is None or entry.plan.host in state.lost:
        return state, []
    return handler(state, entry, event, now)


# ----------------------------------------------------------------- the effect of an event on a task


def _started(state: RunState, entry: TaskState, event: Started, now: float) -> Result:
    phase = TaskPhase.STARTING if entry.plan.serves else TaskPhase.RUNNING
    return state.with_task(replace(entry, phase=phase, pid=event.pid, since=now)), []


def _serving(state: RunState, entry: TaskState, event: Serving, now: float) -> Result:
    return state.with_task(replace(entry, phase=TaskPhase.RUNNING, stage=Stage.ANSWERED)), []


def _reported(state: RunState, entry: TaskState, event: Reported, now: float) -> Result:
    return state.with_task(replace(entry, stage=event.stage)), []


def _not_started(state: RunState, entry: TaskState, event: NotStarted, now: float) -> Result:
    state = state.with_task(replace(entry, phase=TaskPhase.FAILED, pid=None, since=now))
    outcome = Outcome(
        False, 3, f"{entry.plan.task} could not be started: {event.reason}", cause=entry.plan.task
    )
    return _stop(state, outcome, now)


def _exited(state: RunState, entry: TaskState, event: Exited, now: float) -> Result:
    plan, lifetime_s, finished = entry.plan, now - entry.since, entry.stage is Stage.FINISHED
    entry = replace(entry, pid=None, exit_code=0 if finished else event.code, since=now, due=None)
    if finished or (event.code in plan.ok_exit_codes and not plan.serves):
        return state.with_task(replace(entry, phase=TaskPhase.DONE)), []
    death = Death(plan.task, event.code, now, entry.attempt, lifetime_s, diagnose(event.last_lines))
    state = replace(state, deaths=(*state.deaths, death))
    if state.phase is RunPhase.STOPPING or (
        state.phase is RunPhase.FINISHING and plan.role != "server"
    ):
        return state.with_task(replace(entry, phase=TaskPhase.FAILED)), []
    delay_s = restart_delay_s(state, entry, event.code, now)
    if delay_s is not None:
        restarts = (*entry.restarts, now)
        return state.with_task(
            replace(entry, phase=TaskPhase.BACKOFF, due=now + delay_s, restarts=restarts)
        ), []
    state = state.with_task(replace(entry, phase=TaskPhase.FAILED))
    if plan.role == "side":
        return _note(state, describe_loss(state, entry, now)), []
    return _stop(
        state,
        failure(state, entry, now, exit_code=3 if never_served(entry, event.code) else 1),
        now,
    )


def _restart(state: RunState, entry: TaskState, event: Restart, now: float) -> Result:
    return state.with_task(replace(entry, phase=TaskPhase.WAITING, due=None)), []


def _stop_to_restart(state: RunState, entry: TaskState, event: Restart, now: float) -> Result:
    return _stop_task(state, entry, now, AfterStop.RESTART)


# In STOPPING: TERM has been sent.


def _started_too_late(state: RunState, entry: TaskState, event: Started, now: float) -> Result:
    return state.with_task(replace(entry, pid=event.pid)), [Signal(entry.plan.task, "TERM")]


def _restart_after_stop(state: RunState, entry: TaskState, event: Restart, now: float) -> Result:
    return state.with_task(
        entry if entry.removed else replace(entry, after_stop=AfterStop.RESTART)
    ), []


def _stopped_before_start(
    state: RunState, entry: TaskState, event: NotStarted, now: float
) -> Result:
    return _stopped(state, entry, Exited(event.task, entry.exit_code or 0), now)


def _stopped(state: RunState, entry: TaskState, event: Exited, now: float) -> Result:
    if entry.removed:
        return replace(
            state,
            tasks={task: other for task, other in state.tasks.items() if task != entry.plan.task},
        ), []
    finished, again = entry.stage is Stage.FINISHED, entry.after_stop is AfterStop.RESTART
    phase = TaskPhase.WAITING if again else TaskPhase.DONE if finished else TaskPhase.STOPPED
    code = 0 if finished else event.code
    return state.with_task(
        replace(
            entry,
            phase=phase,
            pid=None,
            due=None,
            after_stop=AfterStop.STAY,
            exit_code=code,
            since=now,
        )
    ), []


# An event that a phase does not list changes nothing: it comes late, or is about an earlier
# attempt.
Handler = Callable[..., Result]
TABLE: Mapping[TaskPhase, Mapping[type[TaskEvent], Handler]] = {
    TaskPhase.STARTING: {
        Started: _started,
        NotStarted: _not_started,
        Serving: _serving,
        Exited: _exited,
        Restart: _stop_to_restart,
    },
    TaskPhase.RUNNING: {
        Serving: _serving,
        Reported: _reported,
        Exited: _exited,
        Restart: _stop_to_restart,
    },
    TaskPhase.STOPPING: {
        Started: _started_too_late,
        NotStarted: _stopped_before_start,
        Exited: _stopped,
        Restart: _restart_after_stop,
    },
    TaskPhase.BACKOFF: {Restart: _restart},
    TaskPhase.DONE: {Restart: _restart},
    TaskPhase.STOPPED: {Restart: _restart},
    TaskPhase.FAILED: {Restart: _restart},
}


# ---------------------------------------------------------------- the effect of an event on the run


def _apply(state: RunState, plan: Plan, now: float) -> Result:
    """Take over a plan: unchanged tasks run on, changed ones are stopped and started anew, removed
    ones are stopped."""
    changes = compare(state.plan, plan) if state.plan else None
    began = state.began if state.plan else now
    lost = tuple(dict.fromkeys((*state.lost, *plan.lost)))
    tasks: dict[Task, TaskState] = {}
    actions: list[Action] = []
    for entry in plan.tasks:
        old = state.tasks.get(entry.task)
        if old is None:
            tasks[entry.task] = TaskState(entry, since=now)
        elif old.removed:  # an earlier plan removed it, and it has not ended yet
            tasks[entry.task] = replace(old, plan=entry, after_stop=AfterStop.RESTART)
        elif changes and entry.task in changes.changed:
            tasks[entry.task] = _changed(old, entry, lost)
        else:
            tasks[entry.task] = replace(old, plan=entry)
    leaving = {
        task: entry for task, entry in state.tasks.items() if task not in tasks and entry.alive
    }
    state = replace(
        state, plan=plan, tasks={**tasks, **leaving}, applied=now, began=began, lost=lost
    )
    for task in [*(changes.changed if changes else ()), *(changes.removed if changes else ())]:
        old = state.tasks.get(task)
        if old is not None and old.alive:
            state, more = _stop_task(
                state, old, now, AfterStop.RESTART if task in tasks else AfterStop.REMOVE
            )
            actions += more
    return state, actions


def _changed(old: TaskState, plan: TaskPlan, lost: tuple[str, ...]) -> TaskState:
    if old.alive:
        return replace(old, plan=plan)
    return replace(
        old, plan=plan, phase=TaskPhase.FAILED if plan.host in lost else TaskPhase.WAITING, due=None
    )


def _stop_task(state: RunState, entry: TaskState, now: float, after_stop: AfterStop) -> Result:
    assert state.plan is not None
    entry = replace(entry, after_stop=after_stop)
    if entry.phase is TaskPhase.STOPPING:
        return state.with_task(entry), []
    stopping = replace(entry, phase=TaskPhase.STOPPING, due=now + state.plan.deadlines.stop_s)
    return state.with_task(stopping), [Signal(entry.plan.task, "TERM")]


def _stop(state: RunState, outcome: Outcome, now: float) -> Result:
    """End the run: TERM to every task alive, KILL after the grace. The first outcome stands."""
    if state.phase in (RunPhase.STOPPING, RunPhase.ENDED):
        return state, []
    state = replace(state, phase=RunPhase.STOPPING, outcome=state.outcome or outcome)
    actions: list[Action] = []
    for entry in list(state.tasks.values()):
        if entry.alive:
            state, more = _stop_task(
                state, entry, now, AfterStop.REMOVE if entry.removed else AfterStop.STAY
            )
            actions += more
        elif entry.pending:
            state = state.with_task(replace(entry, phase=TaskPhase.STOPPED, due=None))
    return state, actions


def _save_and_stop(state: RunState, outcome: Outcome, now: float) -> Result:
    """End the run: USR1 to every program alive, KILL after the time that programs have to finish;
    then TERM to the others."""
    programs = [entry for entry in state.tasks.values() if entry.may_save]
    if not programs or state.plan is None or state.phase in (RunPhase.STOPPING, RunPhase.ENDED):
        return _stop(state, outcome, now)
    due = now + state.plan.deadlines.finish_s
    state = replace(state, phase=RunPhase.STOPPING, outcome=state.outcome or outcome)
    for entry in programs:
        state = state.with_task(replace(entry, phase=TaskPhase.STOPPING, due=due))
    for entry in [entry for entry in state.tasks.values() if entry.pending]:
        state = state.with_task(replace(entry, phase=TaskPhase.STOPPED, due=None))
    return state, [Signal(entry.plan.task, "USR1") for entry in programs]


def _stop_servers(state: RunState, now: float) -> Result:
    """Once no program needs them any more."""
    actions: list[Action] = []
    if not any(entry.may_save for entry in state.tasks.values()):
        for entry in [
            entry
            for entry in state.tasks.values()
            if entry.alive and entry.phase is not TaskPhase.STOPPING
        ]:
            state, more = _stop_task(state, entry, now, entry.after_stop)
            actions += more
    return state, actions


def _note(state: RunState, text: str) -> RunState:
    return state if text in state.notes else replace(state, notes=(*state.notes, text))


def _follow_verdict(
    state: RunState, verdict: Move | Outcome | Note | Explain | None, now: float
) -> Result:
    if isinstance(verdict, Note):
        return _note(state, verdict.text), []
    if isinstance(verdict, Outcome):
        return _stop(state, verdict, now)
    return state, [verdict] if verdict else []


def _not_moved(state: RunState, event: NotMoved, now: float) -> Result:
    state = replace(state, hold=None)
    if not event.move.vital:
        return state, []
    return _stop(
        state, replace(event.move.otherwise, text=f"{event.move.otherwise.text}; {event.why}"), now
    )


def _tick(state: RunState, now: float) -> Result:
    actions: list[Action] = []
    for task, entry in list(state.tasks.items()):
        if entry.due is None or now < entry.due:
            continue
        if entry.phase is TaskPhase.BACKOFF:
            state = state.with_task(replace(entry, phase=TaskPhase.WAITING, due=None))
        elif entry.phase is TaskPhase.STOPPING:
            state = state.with_task(replace(entry, due=None))
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
    missing = [
        task
        for task, entry in state.tasks.items()
        if entry.plan.serves and entry.phase in (TaskPhase.WAITING, TaskPhase.STARTING)
    ]
    if (
        missing
        and state.hold is None
        and now - max(state.applied, max(state.tasks[task].since for task in missing))
        >= limits.start_s
    ):
        text = (
            f"{', '.join(map(str, missing))} did not answer within "
            f"{limits.start_s:g} s (deadlines.start)"
        )
        return _stop(
            state,
            Outcome(False, 3, text, cause=missing[0], attempt=state.tasks[missing[0]].attempt),
            now,
        )
    if state.phase is RunPhase.FINISHING and state.due is not None and now >= state.due:
        return _stop(state, Outcome(True, 0, describe_stop(state, limits)), now)
    state, looks = check_silence(state, now)
    state, actions = _follow_verdict(*check_progress(state, now), now)
    return state, [*looks, *actions]


def _settle(state: RunState, now: float) -> Result:
    """What follows from the state alone: start tasks whose servers answer, finish when the deciders
    are done, end when no task is alive."""
    if state.phase is RunPhase.ENDED or state.plan is None:
        if state.phase is RunPhase.STOPPING:
            return replace(state, phase=RunPhase.ENDED), [
                End(state.outcome or Outcome(True, 0, "stopped"))
            ]
        return state, []
    actions: list[Action] = []
    if state.phase in (RunPhase.LIVE, RunPhase.FINISHING):
        state, actions = _follow_verdict(*lose_missed_hosts(state, now), now)
        state, more = _start_ready(state, now)
        actions += more
        state, more = _finish(state, now)
        actions += more
    if state.phase is RunPhase.STOPPING:
        state, more = _stop_servers(state, now)
        actions += more
    if state.phase is RunPhase.STOPPING and not state.any_alive:
        assert state.outcome is not None
        return replace(state, phase=RunPhase.ENDED), [*actions, End(state.outcome)]
    return state, actions


def _start_ready(state: RunState, now: float) -> Result:
    if state.hold is not None:
        if now < state.hold or any(
            entry.phase is TaskPhase.STOPPING or lacks_host(state, entry)
            for entry in state.tasks.values()
        ):
            return state, []
        state = replace(state, hold=None, applied=now)
    actions: list[Action] = []
    answering = {task for task, entry in state.tasks.items() if entry.phase is TaskPhase.RUNNING}
    for entry in list(state.tasks.values()):
        if entry.phase is TaskPhase.WAITING and answering.issuperset(entry.plan.needs):
            fresh = TaskState(
                entry.plan,
                TaskPhase.STARTING,
                entry.attempt + 1,
                now,
                exit_code=entry.exit_code,
                restarts=entry.restarts,
            )
            state = state.with_task(fresh)
            actions.append(Start(entry.plan, fresh.attempt))
    return state, actions


def _finish(state: RunState, now: float) -> Result:
    assert state.plan is not None
    deciding = deciders(state)
    if not deciding or not all(entry.finished for entry in deciding):
        return replace(state, phase=RunPhase.LIVE, due=None), []
    working = [
        entry for entry in state.tasks.values() if entry.plan.role != "server" and not entry.joined
    ]
    if any(entry.alive or entry.pending for entry in working):
        due = (
            state.due if state.phase is RunPhase.FINISHING else now + state.plan.deadlines.finish_s
        )
        return replace(state, phase=RunPhase.FINISHING, due=due), []
    return _stop(state, Outcome(True, 0, describe_success(state)), now)
