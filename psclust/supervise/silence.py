"""The rules for a run that makes no step: look at it when its programs are silent for long, end it
at its limit (`deadlines.progress`). Pure functions."""

from __future__ import annotations

from dataclasses import replace

from psclust.supervise.events import (
    Event,
    Explain,
    Explained,
    Look,
    Looked,
    Note,
    Outcome,
    Progressed,
    Stage,
    Stepped,
    TaskEvent,
    Tick,
)
from psclust.supervise.run_state import Result, RunPhase, RunState, Silence, TaskPhase, TaskState
from psclust.supervise.stopping import stop_run

_EXPLAINED_S = 1.0  # for `up` to show the explanation before tasks end
SILENCE_S = 30.0
_LONGEST_S = 600.0  # between two looks
_FURTHER = 4  # times as long as the silence that was shown last


def note_sign(state: RunState, event: Event, now: float) -> RunState:
    """The state after an event that may be a sign of life."""
    if isinstance(event, TaskEvent) and (
        event.task not in state.tasks or state.tasks[event.task].plan.host in state.lost
    ):
        return state
    match event:
        case Explained() | Looked() | Note() | Tick(printed=False):
            return state
        case Tick() | Stepped() | Progressed():
            # A program that prints a line every minute must not bring the same message every
            # minute.
            shown = state.silence.shown
            return replace(
                state,
                silence=Silence(now, min(SILENCE_S * _FURTHER**shown, _LONGEST_S), shown=shown),
            )
        case _:
            return replace(state, silence=Silence(now, SILENCE_S))


def check_silence(state: RunState, now: float) -> Result:
    """What follows at this time."""
    silence = state.silence
    if now - silence.since < silence.look_after_s or silence.looking or silence.text is not None:
        return state, []
    if state.phase is not RunPhase.LIVE or not awaited(state):
        return state, []
    return replace(state, silence=replace(silence, looking=True)), [
        Look(silence.since, evident=bool(ended(state)))
    ]


def conclude(state: RunState, event: Looked, now: float) -> RunState:
    """Take in the answer to `Look`. It is dropped if there has been a sign of life since."""
    silence = state.silence
    if event.since != silence.since:
        return state
    if event.text is not None:
        return replace(
            state, silence=replace(silence, looking=False, text=event.text, shown=silence.shown + 1)
        )
    lasts_s = now - silence.since
    return replace(
        state,
        silence=replace(silence, looking=False, look_after_s=lasts_s + min(lasts_s, _LONGEST_S)),
    )


def awaited(state: RunState) -> list[TaskState]:
    """Programs at work."""
    programs = [entry for entry in state.tasks.values() if entry.plan.role == "program"]
    return [entry for entry in programs if entry.phase is TaskPhase.RUNNING and not entry.joined]


def ended(state: RunState) -> list[TaskState]:
    """Programs that ended well."""
    return [
        entry for entry in state.tasks.values() if entry.plan.role == "program" and entry.finished
    ]


def check_progress(state: RunState, now: float) -> Result:
    """What follows from the limit at this time: ask what each task does, show it, end the run."""
    limit_s = state.plan.deadlines.progress_s if state.plan else None
    training = [entry for entry in state.tasks.values() if _trains(entry)]
    if limit_s is None or state.phase is not RunPhase.LIVE or not training:
        return state, []
    if now - max(state.stepped, state.applied, *(entry.since for entry in training)) < limit_s:
        return replace(state, asked=False, explained=None) if state.asked else state, []
    if not state.asked:
        return replace(state, asked=True), [Explain()]
    if state.explained is not None and now - state.explained >= _EXPLAINED_S:
        text = f"no step was made for {limit_s:g} s (deadlines.progress)"
        return stop_run(state, Outcome(False, 1, text), now)
    return state, []


def _trains(entry: TaskState) -> bool:
    """Whether it is a program that has work for other tasks."""
    return (
        entry.plan.role == "program"
        and entry.alive
        and entry.stage in (Stage.BEGUN, Stage.ANSWERED)
    )
