"""The effect of an event on a task, by the phase that the task is in. Pure functions.

A task moves through these phases; `TABLE` gives the effect of each event in each of them.

    WAITING --start--> STARTING --(answers, or runs)--> RUNNING --exit 0--> DONE
       ^                  |                                |--exit != 0--> BACKOFF --time-->
       +---- BACKOFF <----+                                |    WAITING; FAILED at the limit,
       |                                                   |    DROPPED if enough workers are left
       +---- DONE, when all tasks start again              |
                                                           |--stopped--> STOPPING --exit-->
                                                                STOPPED; WAITING for a restart
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from psclust.spec.jobs import FAIL, RESTART_ALL
from psclust.supervise.diagnosis import diagnose
from psclust.supervise.events import (
    Death,
    Exited,
    NotStarted,
    Outcome,
    Reported,
    Restart,
    Serving,
    Signal,
    Stage,
    Started,
    TaskEvent,
)
from psclust.supervise.exit_code import describe_exit
from psclust.supervise.fewer_workers import drop_dead, is_dispensable, may_drop
from psclust.supervise.restart_all import restart_with_dead
from psclust.supervise.restart_rule import (
    describe_loss,
    failure_rule,
    never_served,
    restart_delay_s,
)
from psclust.supervise.run_end import failure
from psclust.supervise.run_state import AfterStop, Result, RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.stopping import stop_run, stop_task


def _started(state: RunState, entry: TaskState, event: Started, now: float) -> Result:
    phase = TaskPhase.STARTING if entry.plan.serves else TaskPhase.RUNNING
    return state.with_task(replace(entry, phase=phase, pid=event.pid, since=now)), []


def _serving(state: RunState, entry: TaskState, event: Serving, now: float) -> Result:
    return state.with_task(replace(entry, phase=TaskPhase.RUNNING, stage=Stage.ANSWERED)), []


def _reported(state: RunState, entry: TaskState, event: Reported, now: float) -> Result:
    return state.with_task(replace(entry, stage=event.stage)), []


def _not_started(state: RunState, entry: TaskState, event: NotStarted, now: float) -> Result:
    if entry.removed:
        return _stopped_before_start(state, entry, event, now)
    state = state.with_task(replace(entry, phase=TaskPhase.FAILED, pid=None, since=now))
    outcome = Outcome(
        False, 3, f"{entry.plan.task} could not be started: {event.reason}", cause=entry.plan.task
    )
    return stop_run(state, outcome, now)


def _exited(state: RunState, entry: TaskState, event: Exited, now: float) -> Result:
    if entry.removed:
        return _stopped(state, entry, event, now)
    plan, lifetime_s, finished = entry.plan, now - entry.since, entry.stage is Stage.FINISHED
    entry = replace(entry, pid=None, exit_code=0 if finished else event.code, since=now, due=None)
    if finished or (event.code in plan.ok_exit_codes and not plan.serves):
        return state.with_task(replace(entry, phase=TaskPhase.DONE)), []
    diagnosis = diagnose(event.last_lines)
    death = Death(plan.task, event.code, now, entry.attempt, lifetime_s, diagnosis, event.killed_by)
    state = replace(state, deaths=(*state.deaths, death))
    if state.phase is RunPhase.STOPPING or (
        state.phase is RunPhase.FINISHING and plan.role != "server"
    ):
        return state.with_task(replace(entry, phase=TaskPhase.FAILED)), []
    delay_s = restart_delay_s(state, entry, event.code, now)
    rule = failure_rule(state, plan) if delay_s is not None else None
    if delay_s is not None and (rule is None or rule.value != FAIL):
        restarts = (*entry.restarts, now)
        state = state.with_task(
            replace(entry, phase=TaskPhase.BACKOFF, due=now + delay_s, restarts=restarts)
        )
        if rule is not None and rule.value == RESTART_ALL:
            return restart_with_dead(state, death, rule, now)
        return state, []
    state = state.with_task(replace(entry, phase=TaskPhase.FAILED))
    if plan.role == "side":
        return state.with_note(describe_loss(state, entry, now)), []
    exit_code = 3 if never_served(entry, event.code) else 1
    outcome = failure(state, entry, now, exit_code=exit_code, rule=rule)
    if rule is None and may_drop(state, entry):
        return drop_dead(state, state.tasks[plan.task], outcome, now)
    return stop_run(state, outcome, now)


def _restart(state: RunState, entry: TaskState, event: Restart, now: float) -> Result:
    return state.with_task(replace(entry, phase=TaskPhase.WAITING, due=None)), []


def _stop_to_restart(state: RunState, entry: TaskState, event: Restart, now: float) -> Result:
    return stop_task(state, entry, now, AfterStop.RESTART)


# In STOPPING: TERM has been sent, or USR1 or USR2 to one that is `leaving`.


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
    if entry.leaving and event.code != 0 and state.next_plan is not None:
        how = describe_exit(event.code, on_request=True)
        text = f"{entry.plan.task} {how} as it was to save; its last checkpoint counts"
        state = state.with_note(text)
    if entry.removed:
        return replace(
            state,
            tasks={task: other for task, other in state.tasks.items() if task != entry.plan.task},
        ), []
    finished, again = entry.stage is Stage.FINISHED, entry.after_stop is AfterStop.RESTART
    phase = TaskPhase.WAITING if again else TaskPhase.DONE if finished else TaskPhase.STOPPED
    undecided = state.next_plan is not None or state.phase is RunPhase.STOPPING
    if again and not undecided and entry.plan.host in state.given_up:  # it was to start there
        phase = TaskPhase.DROPPED if is_dispensable(state, entry.plan) else TaskPhase.FAILED
    code = 0 if finished else event.code
    return state.with_task(
        replace(
            entry,
            phase=phase,
            pid=None,
            due=None,
            after_stop=AfterStop.STAY,
            leaving=False,
            at=None,
            exit_code=code,
            stage=Stage.BEGUN if again else entry.stage,
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
    TaskPhase.DROPPED: {Restart: _restart},
}
