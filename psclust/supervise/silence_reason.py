"""Why a run is silent, in words, by what was found on the hosts. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from psclust.supervise.explain import Evidence
from psclust.supervise.python_activity import Activity
from psclust.supervise.run_state import TaskState
from psclust.supervise.silence import awaited, ended
from psclust.supervise.task_finding import Finding
from psclust.transport.task_usage import Usage

_IDLE_GPU = 0.02
_NAMED = 4
# What a program does that asks again and again whether it may go on.
_POLLS = {Activity.CHIEF, Activity.OTHERS, Activity.SAVED, Activity.PEERS}
# What a program does that waits for another task, or for a disk.
_WAITS = {
    Activity.SESSION,
    Activity.CREATING,
    Activity.CALL,
    Activity.THREADS,
    Activity.BARRIER,
    Activity.COMPUTING,
    Activity.SAVING,
    Activity.RESTORING,
    *_POLLS,
}


@dataclass(frozen=True, slots=True)
class Load:
    """cores, bytes_s: of a task, up to which it counts as that."""

    cores: float
    bytes_s: float


IDLE = Load(
    0.03, 4000.0
)  # TensorFlow's threads wake up now and then; TCP and gRPC have messages of their own
POLLING = Load(0.1, 100e3)


def is_below(
    load: Load,
    before: Mapping[str, Usage | None],
    after: Mapping[str, Usage | None],
    seconds: float,
) -> bool:
    """Whether no task does more, by two looks at each; not if one of them is unknown."""
    return bool(after) and all(
        _does_less(load, before.get(task), usage, seconds) for task, usage in after.items()
    )


def _does_less(load: Load, before: Usage | None, after: Usage | None, seconds: float) -> bool:
    if before is None or after is None:
        return False
    cores, received, sent = after.rates(before, seconds)
    gpu = after.gpu.busy if after.gpu is not None else None
    return (
        cores < load.cores
        and (received or 0) + (sent or 0) < load.bytes_s
        and (gpu or 0) < _IDLE_GPU
    )


def describe_silence(evidence: Evidence, findings: Sequence[Finding], *, idle: bool) -> str | None:
    """A clause for the user. None if no program has ended, and one of the others may just be quiet.
    idle: whether no task does anything; it matters only if none has ended."""
    state, late = evidence.state, awaited(evidence.state)
    if not late or state.plan is None:
        return None
    over = [str(entry.plan.task) for entry in ended(state)]
    if not over and not all(_is_in(_WAITS if idle else _POLLS, evidence, entry) for entry in late):
        return None
    lasts = f"no step and no line of output for {evidence.now - state.silence.since:.0f} s"
    waiting = _grouped(
        [
            finding
            for finding in findings
            if finding.task in {str(entry.plan.task) for entry in late}
        ]
    )
    more = f"psclust why {state.plan.name} says more"
    if over:
        return (
            f"{_names(over)} {'has' if len(over) == 1 else 'have'} ended; "
            f"waiting for {waiting}; {lasts}; {more}"
        )
    return f"{lasts}{', and no task uses the CPU' if idle else ''}: {waiting}; {more}"


def _is_in(activities: Set[Activity], evidence: Evidence, entry: TaskState) -> bool:
    found = evidence.whereabouts(entry)
    is_there = found is not None and found.activity in activities
    return evidence.process(entry).is_frozen or is_there


def _grouped(findings: Sequence[Finding]) -> str:
    """Tasks grouped by what they do."""
    groups: dict[str, list[str]] = {}
    for each in findings:
        behind = f", behind {_names(each.waits_for)}" if each.waits_for else ""
        groups.setdefault(f"{each.does}{behind}", []).append(each.task)
    return "; ".join(f"{_names(tasks)}, {does}" for does, tasks in groups.items())


def _names(names: Sequence[str]) -> str:
    """`worker:0, worker:1 and worker:2`, of many only the first."""
    shown = (
        [*names]
        if len(names) <= _NAMED
        else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
    )
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
