"""How tasks and whole runs are stopped: with a signal, and KILL after a grace. Pure functions."""

from __future__ import annotations

from dataclasses import replace

from psclust.supervise.events import Action, Outcome, Signal
from psclust.supervise.run_state import AfterStop, Result, RunPhase, RunState, TaskPhase, TaskState


def stop_task(state: RunState, entry: TaskState, now: float, after_stop: AfterStop) -> Result:
    """TERM to a task that is alive; KILL is due after the grace."""
    assert state.plan is not None
    entry = replace(entry, after_stop=after_stop)
    if entry.phase is TaskPhase.STOPPING:
        return state.with_task(entry), []
    stopping = replace(entry, phase=TaskPhase.STOPPING, due=now + state.plan.deadlines.stop_s)
    return state.with_task(stopping), [Signal(entry.plan.task, "TERM")]


def stop_run(state: RunState, outcome: Outcome, now: float) -> Result:
    """End the run: TERM to every task alive, KILL after the grace. The first outcome stands."""
    if state.phase in (RunPhase.STOPPING, RunPhase.ENDED):
        return state, []
    state = replace(state, phase=RunPhase.STOPPING, outcome=state.outcome or outcome)
    actions: list[Action] = []
    for entry in list(state.tasks.values()):
        if entry.alive:
            state, more = stop_task(
                state, entry, now, AfterStop.REMOVE if entry.removed else AfterStop.STAY
            )
            actions += more
        elif entry.pending:
            state = state.with_task(replace(entry, phase=TaskPhase.STOPPED, due=None))
    return state, actions


def save_and_stop(state: RunState, outcome: Outcome, now: float) -> Result:
    """End the run: USR1 to every program alive, KILL after the time that programs have to finish;
    then TERM to the others."""
    programs = [entry for entry in state.tasks.values() if entry.may_save]
    if not programs or state.plan is None or state.phase in (RunPhase.STOPPING, RunPhase.ENDED):
        return stop_run(state, outcome, now)
    due = now + state.plan.deadlines.finish_s
    state = replace(state, phase=RunPhase.STOPPING, outcome=state.outcome or outcome)
    for entry in programs:
        state = state.with_task(replace(entry, phase=TaskPhase.STOPPING, due=due))
    for entry in [entry for entry in state.tasks.values() if entry.pending]:
        state = state.with_task(replace(entry, phase=TaskPhase.STOPPED, due=None))
    return state, [Signal(entry.plan.task, "USR1") for entry in programs]


def stop_servers(state: RunState, now: float) -> Result:
    """Once no program needs them any more."""
    actions: list[Action] = []
    if not any(entry.may_save for entry in state.tasks.values()):
        for entry in [
            entry
            for entry in state.tasks.values()
            if entry.alive and entry.phase is not TaskPhase.STOPPING
        ]:
            state, more = stop_task(state, entry, now, entry.after_stop)
            actions += more
    return state, actions
