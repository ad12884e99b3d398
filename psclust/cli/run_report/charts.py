"""The figures of a report as numbers that a page can draw: a timeline of attempts, and curves over
the time of the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from psclust.cli.output import duration
from psclust.cli.run_report.story import Story
from psclust.placement.table import format_bytes
from psclust.rundir.samples_file import Sample, TaskSample
from psclust.spec.jobs import PS

MOST_ROWS = 200  # tasks in a timeline
_MOST_SEGMENTS = 1500  # in all its rows
MOST_LINES = 8  # in a chart; of more tasks, each job is one line
_MOST_POINTS = 30_000  # in all charts
_TIMES = [
    unit * count
    for unit, counts in ((0.1, (1, 2, 5)), (1, (1, 2, 5, 10, 30)), (60, (1, 2, 5, 10, 30)))
    for count in counts
]
_TIMES += [3600 * count for count in (1, 2, 6, 12, 24, 48, 96, 240, 480, 2400)]


@dataclass(frozen=True, slots=True)
class Tick:
    """at: 0 to 1 along the axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an attempt. start, width: 0 to 1 of the run. kind: what it does, or `failed`, the
    moment at which it did."""

    start: float
    width: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class TimelineRow:
    task: str
    segments: Sequence[Segment]


@dataclass(frozen=True, slots=True)
class Timeline:
    """left_out: how many tasks have no row."""

    rows: Sequence[TimelineRow]
    ticks: Sequence[Tick]
    kinds: Sequence[str]
    left_out: int


@dataclass(frozen=True, slots=True)
class Line:
    """color: its number in the page's palette, the same in all charts. is_ps: drawn dashed. parts:
    unbroken lines of (x, y), 0 to 1 from the lower left."""

    name: str
    color: int
    is_ps: bool
    parts: Sequence[Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Chart:
    """name: without spaces."""

    name: str
    title: str
    lines: Sequence[Line]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


def timeline(story: Story) -> Timeline:
    """Where there are too many parts to draw, the shortest give way; never a failure."""
    length_s = max(story.length_s, 0.001)
    rows: dict[str, list[Segment]] = {task.task: [] for task in story.status.tasks}
    for attempt in story.attempts:
        row = rows.setdefault(attempt.task, [])
        for kind, since, until in attempt.segments(length_s):
            if until > since:
                title = (
                    f"{attempt.task}, attempt {attempt.number}: {kind}, "
                    f"{duration(until - since)} from {duration(since)}"
                )
                row.append(Segment(since / length_s, (until - since) / length_s, kind, title))
        if attempt.failed and attempt.ended_s is not None:
            title = (
                f"{attempt.task}, attempt {attempt.number} {attempt.reason}, "
                f"at {duration(attempt.ended_s)}"
            )
            row.append(Segment(attempt.ended_s / length_s, 0.0, "failed", title))
    shown = list(rows)[:MOST_ROWS]
    widths = sorted(
        (each.width for task in shown for each in rows[task] if each.kind != "failed"), reverse=True
    )
    least = widths[_MOST_SEGMENTS] if len(widths) > _MOST_SEGMENTS else 0.0
    found = [
        TimelineRow(
            task, [each for each in rows[task] if each.kind == "failed" or each.width > least]
        )
        for task in shown
    ]
    kinds = dict.fromkeys(each.kind for row in found for each in row.segments)
    return Timeline(found, time_ticks(length_s, 10), list(kinds), len(rows) - len(shown))


def time_ticks(length_s: float, most: int) -> list[Tick]:
    """Round moments from the beginning on, `most` after it."""
    step = next((each for each in _TIMES if length_s / each <= most), length_s / most)
    return [
        Tick(number * step / length_s, _time(number * step, step))
        for number in range(math.floor(length_s / step) + 1)
    ]


def _time(seconds: float, step: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if step >= size:
            return f"{seconds / size:g} {unit}"
    if seconds >= 120:
        return f"{int(seconds // 60)}:{round(seconds % 60):02d}"
    return f"{round(seconds, 1):g} s"


def charts(story: Story) -> list[Chart]:
    """The curves with at least two known points that are not 0 all the time."""
    length_s = max(story.length_s, 0.001)
    groups = _groups([task.task for task in story.status.tasks])
    known = [
        (name, title, render, _curves(story.samples, groups, read))
        for name, title, read, render in _CHARTS
    ]
    lines = sum(bool(points) for *_, curves in known for points in curves.values())
    most = max(20, _MOST_POINTS // max(1, lines))
    found = []
    if numbers := _numbers_of_workers(story, length_s):
        curve = {"workers": [numbers]}
        found.append(_chart("workers", "Workers", curve, ["workers"], length_s, _number, most))
    for name, title, render, curves in known:
        drawn = {
            group: points
            for group, parts in curves.items()
            if (points := [part for part in parts if len(part) > 1])
        }
        if any(value for parts in drawn.values() for part in parts for _, value in part):
            found.append(_chart(name, title, drawn, list(groups), length_s, render, most))
    return found


def _numbers_of_workers(story: Story, length_s: float) -> list[tuple[float, float]]:
    """Of an elastic run whose number of workers has changed: the corners of a curve of steps."""
    changes = [
        (event["run_s"], float(event["number"]))
        for event in story.events
        if event["kind"] == "workers"
    ]
    if len(changes) < 2:
        return []
    points = [changes[0]]
    for at, number in changes[1:]:
        points += [(at, points[-1][1]), (at, number)]
    return [*points, (length_s, points[-1][1])]


def _chart(
    name: str,
    title: str,
    curves: dict[str, list[list[tuple[float, float]]]],
    names: list[str],
    length_s: float,
    render: Callable[[float], str],
    most: int,
) -> Chart:
    values = [value for parts in curves.values() for part in parts for _, value in part]
    low, high = (min(values) if name == "loss" else 0.0), max(values)
    ticks = value_ticks(low, high)
    bottom, top = min(low, ticks[0]), max(high, ticks[-1])
    span = top - bottom
    lines = []
    for group, parts in curves.items():
        every = max(1, math.ceil(sum(map(len, parts)) / most))
        scaled = [
            [(at / length_s, (value - bottom) / span) for at, value in _thinned(part, every)]
            for part in parts
        ]
        lines.append(Line(group, names.index(group) % MOST_LINES, _job(group) == PS, scaled))
    y_ticks = [Tick((tick - bottom) / span, render(tick)) for tick in ticks]
    return Chart(name, title, lines, time_ticks(length_s, 6), y_ticks)


def value_ticks(low: float, high: float) -> list[float]:
    """Round numbers around low to high, evenly spaced; at least two."""
    span = high - low if high > low else abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    return [number * step for number in range(first, last + 1)]


def _thinned(part: Sequence[tuple[float, float]], every: int) -> Sequence[tuple[float, float]]:
    """Its last point always stays."""
    return part[::-every][::-1]


def _groups(tasks: Sequence[str]) -> dict[str, list[str]]:
    """Name of a line -> its tasks: each task by itself or, of many, each job."""
    if len(tasks) <= MOST_LINES:
        return {task: [task] for task in tasks}
    jobs: dict[str, list[str]] = {}
    for task in tasks:
        jobs.setdefault(_job(task), []).append(task)
    return {
        (f"{job} (mean of {len(found)})" if len(found) > 1 else found[0]): found
        for job, found in jobs.items()
    }


def _job(group: str) -> str:
    return group.partition(":")[0].partition(" ")[0]


_Read = Callable[[TaskSample, TaskSample | None, float], float | None]


def _now(name: str) -> _Read:
    return lambda sample, before, seconds: getattr(sample, name)


def _rate(name: str) -> _Read:
    """A second, since the sample before of the same attempt."""

    def read(sample: TaskSample, before: TaskSample | None, seconds: float) -> float | None:
        old, new = getattr(before, name, None), getattr(sample, name)
        return None if old is None or new is None or seconds <= 0 else max(0.0, new - old) / seconds

    return read


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _bytes(value: float) -> str:
    return format_bytes(round(value))


def _byte_rate(value: float) -> str:
    return f"{format_bytes(round(value))}/s"


# (name, title, how a value is found, how it is written)
_CHARTS: Sequence[tuple[str, str, _Read, Callable[[float], str]]] = (
    ("loss", "Loss", _now("loss"), _number),
    ("examples", "Examples a second", _now("examples_per_s"), _number),
    ("staleness", "Staleness (mean so far)", _now("staleness"), _number),
    ("cpu", "CPU, in cores", _rate("cpu_s"), _number),
    ("memory", "Memory", _now("memory"), _bytes),
    ("received", "Bytes received", _rate("received"), _byte_rate),
    ("sent", "Bytes sent", _rate("sent"), _byte_rate),
)


def _curves(
    samples: Sequence[Sample], groups: dict[str, list[str]], read: _Read
) -> dict[str, list[list[tuple[float, float]]]]:
    """Of each group, unbroken parts of (second, mean value of its tasks). The line of a task breaks
    where an attempt ends."""
    return {name: list(_parts(samples, tasks, read)) for name, tasks in groups.items()}


def _parts(
    samples: Sequence[Sample], tasks: Sequence[str], read: _Read
) -> Iterator[list[tuple[float, float]]]:
    part: list[tuple[float, float]] = []
    nothing = Sample(0.0, 0.0, {})
    for before, sample in pairwise([nothing, *samples]):
        values, again = [], False
        for task in tasks:
            new, old = sample.tasks.get(task), before.tasks.get(task)
            if new is None:
                continue
            same = old is not None and old.attempt == new.attempt
            again = again or (old is not None and not same)
            value = read(new, old if same else None, sample.run_s - before.run_s)
            if value is not None:
                values.append(value)
        if again and len(tasks) == 1 and part:
            yield part
            part = []
        if values:
            part.append((sample.run_s, sum(values) / len(values)))
    if part:
        yield part
