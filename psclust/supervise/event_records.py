"""The records of `events.jsonl`: an event, then the decisions of the rules about it. A pure
function of the states before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from psclust.plan.task_plan import Plan
from psclust.rundir.events_file import Record, record
from psclust.supervise import events
from psclust.supervise.events import Action, Event
from psclust.supervise.exit_code import describe_exit, shell_code
from psclust.supervise.fewer_workers import workers
from psclust.supervise.run_state import AfterStop, RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.slow_workers import describe_slow
from psclust.supervise.stragglers import stragglers

_PROGRESS = ("phase", "step", "loss", "metrics", "seconds", "model")
_OVER = (TaskPhase.DONE, TaskPhase.STOPPED, TaskPhase.FAILED, TaskPhase.DROPPED)


def event_records(
    before: RunState, event: Event, after: RunState, actions: Sequence[Action], now: float
) -> Iterator[Record]:
    """The records, in order: the event, the decisions, the actions. `now`: on the clock of the
    states."""
    yield from _event(before, event, after, now)
    if after.plan is not None and after.plan is not before.plan:
        yield _plan(before.plan, after.plan)
    yield from _workers(before, after)
    for text in after.notes[len(before.notes) :]:
        yield record("note", text=text)
    yield from _restarts(before, event, after, now)
    if (
        after.phase is RunPhase.FINISHING
        and before.phase is not RunPhase.FINISHING
        and after.due is not None
    ):
        yield record(
            "finishing",
            tasks=[str(entry.plan.task) for entry in stragglers(after)],
            limit_s=round(after.due - now, 3),
        )
    if before.outcome is None and after.outcome is not None:
        cause, collateral = after.outcome.cause, [str(task) for task in after.outcome.collateral]
        yield record(
            "stopping",
            **_ending(after.outcome),
            cause=str(cause) if cause else None,
            collateral=collateral,
        )
    for action in actions:
        yield from _action(after, action)


def _workers(before: RunState, after: RunState) -> Iterator[Record]:
    """A change of who trains in an elastic run."""
    old, new = (
        {entry.plan.task for entry in workers(state)} if state.plan is not None else set()
        for state in (before, after)
    )
    elastic = any(entry.plan.leaves for entry in after.tasks.values())
    if old == new or not elastic or after.phase not in (RunPhase.LIVE, RunPhase.FINISHING):
        return
    gone = {task for task in old - new if task in after.tasks and not after.tasks[task].removed}
    yield record(
        "workers",
        number=len(new),
        joined=[str(task) for task in sorted(new - old)],
        left=[str(task) for task in sorted(old - new - gone)],
        dropped=[str(task) for task in sorted(gone)],
    )


def _restarts(before: RunState, event: Event, after: RunState, now: float) -> Iterator[Record]:
    """The task that died comes before those that start again with it."""
    begins = after.together is not None and after.together != before.together
    for task in sorted(after.tasks, key=lambda task: task != getattr(event, "task", None)):
        old, entry = before.tasks.get(task), after.tasks[task]
        if old is None or old is entry or not _starts_again(old, entry, event):
            continue
        start = (
            after.no_start_before
            if begins
            else entry.due
            if entry.phase is TaskPhase.BACKOFF
            else None
        )
        reason = after.together if begins else None
        yield record(
            "restart",
            **_names(old),
            reason=reason or _why(before, event, after),
            delay_s=round(max(0.0, (start or now) - now), 3),
        )


def _event(before: RunState, event: Event, after: RunState, now: float) -> Iterator[Record]:
    match event:
        case events.Progressed(task, progress):
            yield record(
                "progress",
                **_names(after.tasks[task]),
                **{name: getattr(progress, name) for name in _PROGRESS},
            )
        case events.Explained(_, findings):
            yield record("stalled", findings=list(map(asdict, findings)))
        case events.Looked(_, text, findings) if (
            text is not None and before.silence.text is not after.silence.text
        ):
            yield record("silence", text=text, findings=list(map(asdict, findings)))
        case events.HostSilent(host, silent):
            if (host in before.silent) is not silent:
                yield record("host_silent" if silent else "host_back", host=host)
        case events.HostLeaves(host, reason):
            if host in after.leaving and host not in before.leaving:
                yield record("host_leaves", host=host, reason=reason)
        case events.HostLost(host, reason):
            lost = [
                str(task)
                for task, entry in before.tasks.items()
                if entry.plan.host == host and (entry.alive or entry.pending)
            ]
            yield record("host_lost", host=host, reason=reason, tasks=lost)
        case (
            events.Started()
            | events.NotStarted()
            | events.Serving()
            | events.Reported()
            | events.Exited()
        ):
            entry = before.tasks.get(event.task)
            if entry is not None and after.tasks.get(event.task) is not entry:
                yield _task_event(entry, event, now)


def _plan(before: Plan | None, plan: Plan) -> Record:
    tasks = [
        {
            "task": str(each.task),
            "role": each.role,
            "host": each.host,
            "address": each.address,
        }
        for each in plan.tasks
    ]
    old = {each.task: each for each in before.tasks} if before else {}
    changed = [str(each.task) for each in plan.tasks if each.task in old and each != old[each.task]]
    removed = [str(task) for task in old if task not in {each.task for each in plan.tasks}]
    return record("plan", tasks=tasks, changed=changed, removed=removed)


def _task_event(
    entry: TaskState,
    event: events.Started | events.NotStarted | events.Serving | events.Reported | events.Exited,
    now: float,
) -> Record:
    names = _names(entry)
    match event:
        case events.Started(_, pid):
            return record("process", **names, pid=pid)
        case events.NotStarted(_, reason):
            return record("not_started", **names, reason=reason)
        case events.Serving():
            return record("serving", **names, address=entry.plan.address)
        case events.Reported(_, stage):
            return record("stage", **names, stage=stage.value)
        case events.Exited(_, code, model_step=step, killed_by=killed_by):
            reason = killed_by or describe_exit(code, on_request=entry.phase is TaskPhase.STOPPING)
            return record(
                "exit",
                **names,
                exit_code=shell_code(code),
                reason=reason,
                after_s=round(now - entry.since, 3),
                step=step,
            )


def _action(state: RunState, action: Action) -> Iterator[Record]:
    match action:
        case events.Start(plan, attempt):
            yield record("start", task=str(plan.task), host=plan.host, attempt=attempt)
        case events.Signal(task, signal):
            yield record("signal", **_names(state.tasks[task]), signal=signal)
        case events.Move(lost, otherwise):
            yield record("move", hosts=list(lost), reason=otherwise.text)
        case events.Replace(task, times):
            reason = describe_slow(times)
            yield record("replace", **_names(state.tasks[task]), reason=reason)
        case events.End(outcome):
            yield record("end", **_ending(outcome))


def _starts_again(old: TaskState, new: TaskState, event: Event) -> bool:
    """Whether it was decided just now that the task gets another attempt."""
    if old.phase in _OVER:
        return bool(old.attempt) and (new.phase is TaskPhase.WAITING or new.attempt > old.attempt)
    if old.phase is TaskPhase.BACKOFF:
        return isinstance(event, events.Restart) and event.task == old.plan.task
    return new.phase is TaskPhase.BACKOFF or (
        new.after_stop is AfterStop.RESTART and old.after_stop is not AfterStop.RESTART
    )


def _why(before: RunState, event: Event, after: RunState) -> str:
    if after.next_plan is not before.next_plan and after.outcome is None:
        return "all tasks start again from a checkpoint"
    match event:
        case events.Exited(_, code, killed_by=killed_by):
            return killed_by or describe_exit(code)
        case events.Apply(plan):
            lost = [
                host for host in plan.lost if before.plan is None or host not in before.plan.lost
            ]
            return (
                f"all tasks start again without {', '.join(lost)}"
                if lost
                else "its plan has changed"
            )
    return "requested (psclust restart)"


def _names(entry: TaskState) -> dict[str, str | int]:
    return {"task": str(entry.plan.task), "host": entry.plan.host, "attempt": entry.attempt}


def _ending(outcome: events.Outcome) -> dict[str, object]:
    return {"ok": outcome.ok, "exit_code": outcome.exit_code, "reason": outcome.text}
