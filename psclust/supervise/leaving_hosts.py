"""The rules for a host that is about to go, or is wanted back: its tasks move to spare slots while
it is still there, so that programs leave or save and nothing of the training is lost. Pure
functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psclust.supervise.events import Action, HostLeaves, HostLost, Move, NotMoved, Outcome
from psclust.supervise.fewer_workers import dropped, is_dispensable
from psclust.supervise.restart_rule import servers_are_done
from psclust.supervise.run_state import AfterStop, Result, RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.stopping import ask_to_end, save_and_stop, stop_tasks


def leave_host(state: RunState, event: HostLeaves, now: float) -> Result:
    """Ask for a plan without the host, if tasks are there that the run needs."""
    there = [
        entry
        for entry in state.tasks.values()
        if entry.plan.host == event.host
        and entry.plan.role != "side"
        and (entry.alive or entry.pending)
    ]
    known = event.host in state.given_up
    if known or not there or state.phase is not RunPhase.LIVE:
        return state, []
    names = ", ".join(str(entry.plan.task) for entry in there)
    text = f"host {event.host} is to be left, with {names}: {event.reason}"
    if servers_are_done(state):
        done = event.goes and all(entry.plan.role == "server" for entry in there)
        return _go_on_without(state, there, event, text, now) if done else (state, [])
    otherwise = Outcome(False, 1, text, cause=there[0].plan.task)
    state = replace(state, leaving=(*state.leaving, event.host))
    move = Move(state.given_up, otherwise, vital=event.goes, absent=dropped(state), leaves=True)
    return state, [move]


def _go_on_without(
    state: RunState, servers: Sequence[TaskState], event: HostLeaves, text: str, now: float
) -> Result:
    """The host goes once its tasks have ended. A program that starts again has them move."""
    state, actions = stop_tasks(state, servers, now)
    state = replace(
        state,
        leaving=(*state.leaving, event.host),
        missed=(*state.missed, HostLost(event.host, event.reason)),
    )
    text = f"{text}; the training is over, and the run goes on without"
    return state.with_note(text), actions


def stay_on_host(state: RunState, event: NotMoved, now: float) -> Result:
    """There is no place for its tasks: they stay, or, where it goes, save before they end with
    it."""
    move = event.move
    state = replace(state, leaving=tuple(host for host in state.leaving if host != move.lost[-1]))
    text = f"{move.otherwise.text}; {event.why}"
    if not move.vital:
        return state.with_note(f"{text}; they stay as long as it does"), []
    return save_and_stop(state, replace(move.otherwise, text=text), now)


def leave_without_successor(state: RunState, now: float) -> Result:
    """After a plan was taken over: workers of such hosts that have got no other place, where the
    run can do without them."""
    actions: list[Action] = []
    for entry in list(state.tasks.values()):
        if (
            entry.plan.host in state.leaving
            and entry.phase is TaskPhase.RUNNING
            and is_dispensable(state, entry.plan)
        ):
            state, more = ask_to_end(state, entry, now, AfterStop.RESTART, "USR2")
            actions += more
    return state, actions
