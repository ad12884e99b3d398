"""The rules of a run: events in, actions out.

Rule 1: every decision is made here, or in the pure functions called from here: `task_table`,
`restart_rule`, `host_loss`, `run_end` and others. `transition` is a pure function of a state, an
event and the time; it starts nothing, reads no clock and touches no disk. The supervisor reports
what happened and carries out what `transition` returns.
Rule 2: no rule knows how or where a task runs: a fork server, SSH and a test's replayed history
look the same to it.

The run is LIVE until the tasks that decide have ended (FINISHING: the other programs get their
grace) or something ends it early (STOPPING), and ENDED once no task is alive.
"""

from __future__ import annotations

from dataclasses import replace

from psclust.supervise.events import (
    Action,
    Apply,
    End,
    Event,
    Explained,
    HostLeaves,
    HostLost,
    HostSilent,
    Kill,
    Looked,
    Move,
    Note,
    NotMoved,
    Outcome,
    Progressed,
    Signal,
    Slow,
    Start,
    Stepped,
    Stop,
    TaskEvent,
    Tick,
)
from psclust.supervise.host_loss import (
    lacks_host,
    lose_host,
    lose_missed_hosts,
    with_hosts_back,
)
from psclust.supervise.leaving_hosts import leave_host, stay_on_host
from psclust.supervise.plan_change import (
    apply_plan,
    go_on_with_plan,
    must_wait,
    note_step,
    save_and_apply,
)
from psclust.supervise.restart_all import holds_others, restart_with_lost
from psclust.supervise.run_end import deciders, describe_success
from psclust.supervise.run_state import AfterStop, Result, RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.silence import check_progress, check_silence, conclude, note_sign
from psclust.supervise.slow_workers import replace_slow
from psclust.supervise.stopping import begin_end, save_and_stop, stop_run, stop_servers
from psclust.supervise.stragglers import describe_stop
from psclust.supervise.task_table import TABLE


def transition(state: RunState, event: Event, now: float) -> Result:
    """The next state, and the actions to carry out, in order."""
    if state.phase is RunPhase.ENDED:
        return state, []
    actions: list[Action] = []
    state = note_sign(state, event, now)
    match event:
        case Apply():
            state = with_hosts_back(state, event.joined)
            take_over = save_and_apply if event.save else apply_plan
            state, actions = take_over(state, event.plan, now)
        case Stop():
            stop = save_and_stop if event.save else stop_run
            state, actions = stop(state, Outcome(event.ok, event.exit_code, event.reason), now)
        case Kill():
            actions = [Signal(task, "KILL") for task, entry in state.tasks.items() if entry.alive]
            state = begin_end(state, Outcome(False, event.exit_code, event.reason))
        case HostSilent():
            state = replace(
                state,
                silent=state.silent | {event.host} if event.silent else state.silent - {event.host},
            )
        case HostLeaves():
            state, actions = leave_host(state, event, now)
        case HostLost():
            state, actions = lose_host(state, event, now)
            if any(isinstance(action, Move) for action in actions):
                state, more = restart_with_lost(state, event, now)
                actions = more + actions
        case Progressed():
            pass  # recorded only
        case Stepped():
            state = note_step(state, event, now)
        case Explained():
            state = replace(state.with_note(event.text), explained=now)
        case Looked():
            state = conclude(state, event, now)
        case Note():
            state = state.with_note(event.text)
        case Slow():
            state, actions = replace_slow(state, event, now)
        case NotMoved():
            not_moved = stay_on_host if event.move.leaves else _not_moved
            state, actions = not_moved(state, event, now)
        case Tick():
            state, actions = _tick(state, now)
        case _:
            state, actions = _task_event(state, event, now)
    state, more = _settle(state, now)
    return state, actions + more


def _task_event(state: RunState, event: TaskEvent, now: float) -> Result:
    entry = state.tasks.get(event.task)
    handler = TABLE.get(entry.phase, {}).get(type(event)) if entry else None
    if entry is None or handler is None or entry.where in state.lost:
        return state, []
    return handler(state, entry, event, now)


def _not_moved(state: RunState, event: NotMoved, now: float) -> Result:
    if state.together is None:
        state = replace(state, no_start_before=None)
    if not event.move.vital:
        return state, []
    return stop_run(
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
        return stop_run(state, Outcome(limits.run_exit_code == 0, limits.run_exit_code, text), now)
    missing = [
        task
        for task, entry in state.tasks.items()
        if entry.plan.serves and entry.phase in (TaskPhase.WAITING, TaskPhase.STARTING)
    ]
    if (
        missing
        and state.no_start_before is None
        and now - max(state.applied, max(state.tasks[task].since for task in missing))
        >= limits.start_s
    ):
        text = (
            f"{', '.join(map(str, missing))} did not answer within "
            f"{limits.start_s:g} s (deadlines.start)"
        )
        return stop_run(
            state,
            Outcome(False, 3, text, cause=missing[0], attempt=state.tasks[missing[0]].attempt),
            now,
        )
    if state.phase is RunPhase.FINISHING and state.due is not None and now >= state.due:
        return stop_run(state, Outcome(True, 0, describe_stop(state, limits)), now)
    state, looks = check_silence(state, now)
    state, actions = check_progress(state, now)
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
        for step in (lose_missed_hosts, go_on_with_plan, _start_ready, _finish):
            state, more = step(state, now)
            actions += more
    if state.phase is RunPhase.STOPPING:
        state, more = stop_servers(state, now)
        actions += more
    if state.phase is RunPhase.STOPPING and not state.any_alive:
        assert state.outcome is not None
        return replace(state, phase=RunPhase.ENDED), [*actions, End(state.outcome)]
    return state, actions


def _start_ready(state: RunState, now: float) -> Result:
    if state.no_start_before is not None:
        if now < state.no_start_before or any(
            entry.phase is TaskPhase.STOPPING
            or lacks_host(state, entry)
            or holds_others(state, entry)
            for entry in state.tasks.values()
        ):
            return state, []
        state = replace(state, no_start_before=None, together=None, applied=now)
    actions: list[Action] = []
    answering = {
        task
        for task, entry in state.tasks.items()
        if entry.phase is TaskPhase.RUNNING and entry.after_stop is AfterStop.STAY
    }
    for entry in list(state.tasks.values()):
        ready = answering.issuperset(entry.plan.needs) and not must_wait(state, entry.plan)
        if entry.phase is TaskPhase.WAITING and ready:
            fresh = TaskState(
                entry.plan,
                TaskPhase.STARTING,
                entry.attempt + 1,
                now,
                exit_code=entry.exit_code,
                restarts=entry.restarts,
            )
            attempts = {**state.attempts, entry.plan.task: fresh.attempt}
            state = replace(state.with_task(fresh), attempts=attempts)
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
    return stop_run(state, Outcome(True, 0, describe_success(state)), now)
