"""The rules for a lost host: nobody can say how its tasks ended, only that they have. They move to other hosts where they may be started
again, and then every task starts again, because TensorFlow's servers and sessions keep the addresses they began with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psclust.spec.plurals import counted
from psclust.supervise.events import HostLost, Move, Note, Outcome
from psclust.supervise.restart_rule import allowance
from psclust.supervise.run_state import RunPhase, RunState, TaskPhase, TaskState


def lose(state: RunState, event: HostLost, now: float) -> tuple[RunState, Move | Outcome | Note | None]:
    """The state without the host, and what is to be done: plan anew, end the run, or nothing but say so."""
    there = [entry for entry in state.tasks.values() if entry.plan.host == event.host and _has_business(entry)]
    ended = {entry.plan.task: _ended(entry, now) for entry in there}
    tasks = {task: entry for task, entry in {**state.tasks, **ended}.items() if not (task in ended and entry.removed)}
    state = replace(state, tasks=tasks, lost=(*state.lost, event.host))
    gone = [entry for entry in ended.values() if entry.phase is TaskPhase.FAILED]
    # Once the work is done, nobody is started again.
    if not gone or state.phase is not RunPhase.LIVE:
        return state, None
    if _servers_are_done(state):
        stopped = {entry.plan.task: replace(entry, phase=TaskPhase.STOPPED) for entry in gone}
        text = f"host {event.host} is lost, with {_names(gone)}: {event.reason}; the training is over, and the run goes on without"
        return replace(state, tasks={**state.tasks, **stopped}, missed=(*state.missed, event)), Note(text)
    return _replace_tasks(state, gone, event, now)


def miss(state: RunState, now: float) -> tuple[RunState, Move | Outcome | None]:
    """Once a program is to start again, it may need what it could do without before: lose it now."""
    programs = [entry for entry in state.tasks.values() if entry.plan.role == "program"]
    if not state.missed or not any(entry.phase in (TaskPhase.WAITING, TaskPhase.BACKOFF) for entry in programs):
        return state, None
    hosts = {event.host for event in state.missed}
    there = [entry for entry in state.tasks.values() if entry.plan.host in hosts and entry.phase is TaskPhase.STOPPED]
    gone = [replace(entry, phase=TaskPhase.FAILED) for entry in there]
    tasks = {**state.tasks, **{entry.plan.task: entry for entry in gone}}
    return _replace_tasks(replace(state, tasks=tasks, missed=()), gone, state.missed[-1], now)


def _servers_are_done(state: RunState) -> bool:
    """Whether no program needs a server, or another program, any more."""
    programs = [entry for entry in state.tasks.values() if entry.plan.role == "program"]
    return bool(programs) and all(entry.phase is TaskPhase.DONE or entry.finished or (entry.trained and entry.alive) for entry in programs)


def _replace_tasks(state: RunState, gone: Sequence[TaskState], event: HostLost, now: float) -> tuple[RunState, Move | Outcome]:
    # Of those that only look on, the run does not depend.
    vital = [entry for entry in gone if entry.plan.role != "side"]
    if event.all_hosts and vital:
        return state, Outcome(False, 1, event.reason)
    text = f"host {event.host} is lost, with {_names(gone)}: {event.reason}"
    otherwise = Outcome(False, 1, text, cause=(vital or gone)[0].plan.task)
    obstacle = _obstacle(state, vital, now)
    if obstacle is not None:
        return state, replace(otherwise, text=f"{otherwise.text}; {obstacle}")
    return _hold(state, gone, now), Move(state.lost, otherwise, vital=bool(vital))


def _names(entries: Sequence[TaskState]) -> str:
    return ", ".join(str(entry.plan.task) for entry in entries)


def has_no_place(state: RunState, entry: TaskState) -> bool:
    """Whether the run cannot do without the task, and its host is lost."""
    return entry.phase is TaskPhase.FAILED and entry.plan.role != "side" and entry.plan.host in state.lost


def _has_business(entry: TaskState) -> bool:
    return entry.alive or entry.phase in (TaskPhase.WAITING, TaskPhase.BACKOFF)


def _ended(entry: TaskState, now: float) -> TaskState:
    """FAILED: it is missing now."""
    stopped = entry.phase is TaskPhase.STOPPING and not entry.again
    done = entry.finished or entry.over
    phase = TaskPhase.DONE if done else TaskPhase.STOPPED if stopped else TaskPhase.FAILED
    code = 0 if done else entry.exit_code
    return replace(entry, phase=phase, pid=None, due=None, again=False, exit_code=code, since=now)


def _obstacle(state: RunState, vital: Sequence[TaskState], now: float) -> str | None:
    """Why the tasks may not be started again, as a clause."""
    moving = {entry.plan.task for entry in vital}
    for task, entry in state.tasks.items():
        policy = entry.plan.restart
        if moving and policy.when == "never" and (task in moving or (entry.alive and entry.plan.role != "side")):
            return f"to move them would start all tasks again, and {task} is to be started once only (restart: when: never)"
        if task in moving and allowance(policy, entry.restarts, now, task) is None:
            return f"{task} had used its {counted(policy.max, 'restart')} within {policy.window_s:g} s"
    return None


def _hold(state: RunState, gone: Sequence[TaskState], now: float) -> RunState:
    """Restarts are counted and delayed as after any other death, and until the host's own agent has ended what it does not hear of."""
    assert state.plan is not None
    delays = [allowance(entry.plan.restart, entry.restarts, now, entry.plan.task) or 0.0 for entry in gone]
    counted = {entry.plan.task: replace(entry, restarts=(*entry.restarts, now)) for entry in gone}
    return replace(state, tasks={**state.tasks, **counted}, hold=now + max(state.plan.deadlines.stop_s, *delays))
