"""The rule `replace_slow`: a worker that makes steps many times slower than the others gives its
place to a spare slot on another host. Pure, but for the readings so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from psclust.spec.cluster import Task
from psclust.spec.jobs import WORKER
from psclust.supervise.events import Replace, Slow
from psclust.supervise.reading import Reading
from psclust.supervise.run_state import AfterStop, Result, RunPhase, RunState, TaskPhase

SPAN_S = 60.0  # over which rates are compared
AGAIN_S = 600.0  # until the same worker may change places again
_LEAST_READINGS = 3  # of long runs there is less than one in twenty seconds


def slowest(rates: Mapping[Task, float], times: float) -> tuple[Task, float] | None:
    """rates: examples a second of each worker, in the time over which they are compared. The worker
    that is the furthest behind, if the median is at least so many times its rate, and how many
    times. Never the first, which leads the training."""
    if len(rates) < 2:
        return None
    usual = median(rates.values())
    behind = {
        task: usual / rate if rate > 0 else float("inf")
        for task, rate in rates.items()
        if task.job == WORKER and task.index > 0
    }
    task = max(behind, key=behind.__getitem__, default=None)
    return (task, behind[task]) if task is not None and usual and behind[task] >= times else None


@dataclass
class _Rates:
    """Of one attempt: (when, examples a second). began: when it was first seen at work."""

    attempt: int
    began: float
    seen: list[tuple[float, float]] = field(default_factory=list)

    def mean(self, now: float) -> float | None:
        """Over the last minute; None before it is over."""
        if now - self.began < SPAN_S or len(self.seen) < _LEAST_READINGS:
            return None
        return fmean(rate for _, rate in self.seen)


class SlowWorkers:
    """Of all workers of a run. For one thread."""

    def __init__(self) -> None:
        self._rates: dict[Task, _Rates] = {}

    def take(self, readings: Sequence[Reading], now: float, times: float) -> Slow | None:
        """New readings, at `now`. Which worker is slow, if one is."""
        working = {
            Task.parse(each.task): each
            for each in readings
            if each.role == "program"
            and each.state == TaskPhase.RUNNING.value
            and each.examples_per_s is not None
        }
        self._rates = {task: self._rates_of(task, each, now) for task, each in working.items()}
        means = {task: rates.mean(now) for task, rates in self._rates.items()}
        found = slowest({task: rate for task, rate in means.items() if rate is not None}, times)
        return None if found is None else Slow(*found)

    def _rates_of(self, task: Task, reading: Reading, now: float) -> _Rates:
        rates = self._rates.get(task)
        if rates is None or rates.attempt != reading.attempt:
            rates = _Rates(reading.attempt, now)
        rates.seen.append((now, reading.examples_per_s or 0.0))
        recent = [each for each in rates.seen if now - each[0] <= SPAN_S]
        rates.seen = max(recent, rates.seen[-_LEAST_READINGS:], key=len)
        return rates


def describe_slow(times: float) -> str:
    """As a predicate of the worker."""
    return (
        f"made steps {times:.1f} times slower than the median of all workers over a minute "
        "(replace_slow)"
    )


def replace_slow(state: RunState, event: Slow, now: float) -> Result:
    """Have one worker at a time change places, in a run that is calm."""
    entry, last = state.tasks.get(event.task), state.replaced.get(event.task)
    if (
        entry is None
        or state.plan is None
        or state.plan.replace_slow is None
        or not (entry.plan.grows and entry.plan.leaves)
        or (last is not None and now - last < AGAIN_S)
        or not _is_calm(state)
    ):
        return state, []
    state = replace(state, replaced={**state.replaced, event.task: now})
    absent = tuple(task for task, each in state.tasks.items() if each.phase is TaskPhase.DROPPED)
    return state, [Replace(event.task, event.times, absent)]


def _is_calm(state: RunState) -> bool:
    """Whether no task is about to start or to end."""
    still = (TaskPhase.RUNNING, TaskPhase.DONE, TaskPhase.DROPPED)
    return (
        state.phase is RunPhase.LIVE
        and state.next_plan is None
        and state.no_start_before is None
        and all(
            entry.phase in still and entry.after_stop is AfterStop.STAY
            for entry in state.tasks.values()
            if entry.plan.role != "side"
        )
    )
