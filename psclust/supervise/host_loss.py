"""The rules for a lost host: its tasks have ended, in an unknown way. They move to other hosts if
they may start again, and then every task starts again, because TensorFlow's servers and sessions
keep the addresses they began with. An elastic run moves its workers alone, and does without those
for which there is no place (`fewer_workers`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psclust.plan.task_plan import Plan
from psclust.spec.jobs import FAIL
from psclust.supervise.events import HostLost, Move, Outcome, Stage
from psclust.supervise.fewer_workers import dropped, is_dispensable
from psclust.supervise.restart_rule import (
    backoff_s,
    describe_limit,
    failure_rule,
    servers_are_done,
)
from psclust.supervise.run_state import AfterStop, Result, RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.stopping import follow, stop_run


def lose_host(state: RunState, event: HostLost, now: float) -> Result:
    """Go on without the host: a new plan, the end of the run, a note, or nothing may follow."""
    there = [
        entry
        for entry in state.tasks.values()
        if entry.where == event.host and (entry.alive or entry.pending)
    ]
    # They end elsewhere, and were to start here.
    coming = [
        entry
        for entry in state.tasks.values()
        if entry.plan.host == event.host != entry.where and not entry.removed
    ]
    ended = {entry.plan.task: _ended(entry, now) for entry in there}
    tasks = {
        task: entry
        for task, entry in {**state.tasks, **ended}.items()
        if not (task in ended and entry.removed)
    }
    state = replace(
        state,
        tasks=tasks,
        lost=(*state.lost, event.host),
        leaving=tuple(host for host in state.leaving if host != event.host),
    )
    if any(entry.at is not None for entry in there) and state.plan is not None:
        before = max(state.no_start_before or now, now + state.plan.deadlines.lost_s)
        state = replace(state, no_start_before=before)
    missing = [
        entry for entry in ended.values() if entry.phase is TaskPhase.FAILED and not entry.removed
    ] + coming
    # Nothing starts again once the work is done.
    if not missing or state.phase is not RunPhase.LIVE:
        return state, []
    if servers_are_done(state):
        stopped = {entry.plan.task: replace(entry, phase=TaskPhase.STOPPED) for entry in missing}
        text = (
            f"host {event.host} is lost, with {_names(missing)}: {event.reason}; "
            "the training is over, and the run goes on without"
        )
        state = replace(state, tasks={**state.tasks, **stopped}, missed=(*state.missed, event))
        return state.with_note(text), []
    moving, verdict = replace_tasks(state, missing, event, now)
    fatal = [rule for each in missing if (rule := failure_rule(state, each.plan)) is not None]
    if isinstance(verdict, Move) and (rule := next((r for r in fatal if r.value == FAIL), None)):
        text = f"{verdict.otherwise.text}; {rule}"
        return stop_run(state, replace(verdict.otherwise, text=text), now)
    return follow(moving, verdict, now)


def lose_missed_hosts(state: RunState, now: float) -> Result:
    """A program that starts again may need the servers of hosts that were only noted as missed:
    treat those hosts as lost now."""
    programs = [entry for entry in state.tasks.values() if entry.plan.role == "program"]
    if not state.missed or not any(entry.pending for entry in programs):
        return state, []
    hosts = {event.host for event in state.missed}
    there = [
        entry
        for entry in state.tasks.values()
        if entry.plan.host in hosts and entry.phase is TaskPhase.STOPPED
    ]
    missing = [replace(entry, phase=TaskPhase.FAILED) for entry in there]
    tasks = {**state.tasks, **{entry.plan.task: entry for entry in missing}}
    lost = replace(state, tasks=tasks, missed=())
    return follow(*replace_tasks(lost, missing, state.missed[-1], now), now)


def hosts_back(state: RunState, plan: Plan) -> list[str]:
    """The hosts that were lost, or that an earlier plan left, and `plan` has again."""
    left = {*state.plan.lost} & {*state.leaving} if state.plan is not None else set()
    return sorted({*state.lost, *left} - {*plan.lost})


def with_hosts_back(state: RunState, hosts: Sequence[str]) -> RunState:
    """These hosts have an agent again, which runs nothing yet."""
    if not hosts:
        return state
    return replace(
        state,
        lost=tuple(host for host in state.lost if host not in hosts),
        leaving=tuple(host for host in state.leaving if host not in hosts),
        missed=tuple(event for event in state.missed if event.host not in hosts),
    )


def lacks_host(state: RunState, entry: TaskState) -> bool:
    """Whether the run needs the task, and its host is lost."""
    return (
        entry.phase is TaskPhase.FAILED
        and entry.plan.role != "side"
        and entry.plan.host in state.lost
    )


def replace_tasks(
    state: RunState, missing: Sequence[TaskState], event: HostLost, now: float
) -> tuple[RunState, Move | Outcome]:
    """Have these tasks move, which are FAILED on a lost host, or end the run if they may not."""
    vital = [entry for entry in missing if entry.plan.role != "side"]
    if event.all_hosts and vital:
        return state, Outcome(False, 1, event.reason)
    text = f"host {event.host} is lost, with {_names(missing)}: {event.reason}"
    otherwise = Outcome(False, 1, text, cause=(vital or missing)[0].plan.task)
    needed = [entry for entry in vital if not is_dispensable(state, entry.plan)]
    obstacle = _obstacle(state, needed, now)
    if obstacle is not None:
        return state, replace(otherwise, text=f"{otherwise.text}; {obstacle}")
    stuck = [entry.plan.task for entry in vital if entry not in needed and _stays(entry, now)]
    absent = (*dropped(state), *stuck)
    delayed = _delay_starts(state, missing, now)
    return delayed, Move(state.given_up, otherwise, vital=bool(vital), absent=absent)


def _stays(entry: TaskState, now: float) -> bool:
    """Whether the task may not start anywhere else."""
    return entry.plan.restart.when == "never" or backoff_s(entry, now) is None


def _names(entries: Sequence[TaskState]) -> str:
    return ", ".join(str(entry.plan.task) for entry in entries)


def _ended(entry: TaskState, now: float) -> TaskState:
    """DONE, STOPPED, or FAILED for a task that the run is now missing; WAITING for one that was to
    start on another host."""
    if entry.at is not None and entry.after_stop is AfterStop.RESTART:
        waits = replace(entry, phase=TaskPhase.WAITING, pid=None, due=None, since=now, at=None)
        return replace(waits, after_stop=AfterStop.STAY, leaving=False, stage=Stage.BEGUN)
    stopped = entry.phase is TaskPhase.STOPPING and entry.after_stop is not AfterStop.RESTART
    done = entry.stage in (Stage.FINISHED, Stage.LEAVING)
    phase = TaskPhase.DONE if done else TaskPhase.STOPPED if stopped else TaskPhase.FAILED
    after_stop = AfterStop.REMOVE if entry.removed else AfterStop.STAY
    return replace(
        entry,
        phase=phase,
        pid=None,
        due=None,
        after_stop=after_stop,
        exit_code=0 if done else entry.exit_code,
        since=now,
    )


def _obstacle(state: RunState, vital: Sequence[TaskState], now: float) -> str | None:
    """Why the tasks may not start again, as a clause."""
    moving = {entry.plan.task for entry in vital}
    for task, entry in state.tasks.items():
        if (
            moving
            and entry.plan.restart.when == "never"
            and (task in moving or (entry.alive and entry.plan.role != "side"))
        ):
            return (
                "to move them would start all tasks again, "
                f"and {task} is to be started once only (restart: when: never)"
            )
        if task in moving and backoff_s(entry, now) is None:
            return describe_limit(entry)
    return None


def _delay_starts(state: RunState, missing: Sequence[TaskState], now: float) -> RunState:
    """Count and delay the restarts as after any other death, and at least until the lost host's own
    agent has ended its tasks."""
    assert state.plan is not None
    delays = [backoff_s(entry, now) or 0.0 for entry in missing]
    counted = {
        entry.plan.task: replace(entry, restarts=(*entry.restarts, now)) for entry in missing
    }
    return replace(
        state,
        tasks={**state.tasks, **counted},
        no_start_before=max(
            state.no_start_before or now, now + max(state.plan.deadlines.lost_s, *delays)
        ),
    )
