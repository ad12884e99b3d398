"""How tasks and whole runs are stopped: with a signal, and KILL after a grace. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from psclust.supervise.events import Action, Move, Outcome, Signal
from psclust.supervise.run_state import AfterStop, Result, RunPhase, RunState, TaskPhase, TaskState
from psclust.transport.api import SignalName


def stop_task(state: RunState, entry: TaskState, now: float, after_stop: AfterStop) -> Result:
    """TERM to a task that is alive, also to one that was asked to end by itself; KILL is due after
    the grace."""
    assert state.plan is not None
    entry = replace(entry, after_stop=after_stop)
    if entry.phase is TaskPhase.STOPPING and not entry.leaving:
        return state.with_task(entry), []
    due = now + state.plan.deadlines.stop_s
    stopping = replace(entry, phase=TaskPhase.STOPPING, due=due, leaving=False)
    return state.with_task(stopping), [Signal(entry.plan.task, "TERM")]


def ask_to_end(
    state: RunState, entry: TaskState, now: float, after_stop: AfterStop, signal: SignalName
) -> Result:
    """Have a program that is running end by itself; KILL is due after the time that programs have
    to finish."""
    assert state.plan is not None
    due = now + state.plan.deadlines.finish_s
    asked = replace(entry, phase=TaskPhase.STOPPING, due=due, after_stop=after_stop, leaving=True)
    return state.with_task(asked), [Signal(entry.plan.task, signal)]


def stop_run(state: RunState, outcome: Outcome, now: float) -> Result:
    """End the run: TERM to every task alive, KILL after the grace."""
    if state.phase in (RunPhase.STOPPING, RunPhase.ENDED):
        return state, []
    state = begin_end(state, outcome)
    return stop_tasks(state, list(state.tasks.values()), now)


def begin_end(state: RunState, outcome: Outcome) -> RunState:
    """The first outcome stands."""
    return replace(state, phase=RunPhase.STOPPING, outcome=state.outcome or outcome, next_plan=None)


def follow(state: RunState, verdict: Move | Outcome, now: float) -> Result:
    """Carry out a decision: a new plan, or the end of the run."""
    return stop_run(state, verdict, now) if isinstance(verdict, Outcome) else (state, [verdict])


def stop_tasks(state: RunState, entries: Iterable[TaskState], now: float) -> Result:
    """TERM to those that are alive; those that were to start do not."""
    actions: list[Action] = []
    for entry in entries:
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
    waiting = [entry for entry in state.tasks.values() if entry.pending]
    state, _ = stop_tasks(begin_end(state, outcome), waiting, now)
    for entry in programs:
        state = state.with_task(replace(entry, phase=TaskPhase.STOPPING, due=due, leaving=False))
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
