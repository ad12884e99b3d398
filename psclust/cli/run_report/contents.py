"""The parts of a report that are the same as a page and as text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from psclust.cli.output import duration
from psclust.cli.run_report.story import Story, clause_of
from psclust.placement.table import format_bytes
from psclust.spec.cluster import LOCALHOST

_MOST_TASKS = 300
_FIRST_EVENTS, _LAST_EVENTS = 60, 240  # where there are more than both
_LONGEST_CLAUSE = 600  # characters
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Cells:
    """numbers: the columns to write from the right. left_out: how many rows are missing."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """A ps. percent: of all bytes of variables."""

    ps: str
    variables: int
    bytes: str
    percent: int
    largest: str


def facts(story: Story) -> list[tuple[str, str]]:
    """(what, how much) of what is known of the whole run; metrics are those of the best
    evaluation."""
    totals = story.totals
    found = [("steps", f"{totals.steps:,}")] if totals.steps else []
    at = "" if totals.metrics_step is None else f" at step {totals.metrics_step:,}"
    found += [(f"{name}{at}", f"{value:.4g}") for name, value in totals.metrics.items()]
    times = (
        ("until training", totals.start_s),
        ("training", totals.training_s),
        ("waiting for tasks to end", totals.waiting_s),
        ("saving", totals.saving_s),
    )
    found += [(title, duration(seconds)) for title, seconds in times if seconds is not None]
    return [*found, ("restarts", str(totals.restarts)), ("tasks", str(len(story.status.tasks)))]


def task_cells(story: Story) -> Cells:
    """Over all attempts. memory: the most at once. Hosts are named where there is another than this
    one."""
    restarts = {
        task.task: sum(e["kind"] == "restart" and e["task"] == task.task for e in story.events)
        for task in story.status.tasks
    }
    apart = any(task.host != LOCALHOST.name for task in story.status.tasks)
    rows = []
    for task in story.status.tasks[:_MOST_TASKS]:
        use = story.use(task)
        rows.append(
            (
                task.task,
                *((task.host,) if apart else ()),
                task.phase,
                _UNKNOWN if task.exit_code is None else str(task.exit_code),
                str(restarts[task.task]),
                _UNKNOWN if use.cpu_s is None else duration(use.cpu_s),
                *(
                    _UNKNOWN if count is None else format_bytes(count)
                    for count in (use.memory, use.received, use.sent)
                ),
            )
        )
    head = (
        "task",
        *(("host",) if apart else ()),
        "state",
        "exit code",
        "restarts",
        "CPU time",
        "memory",
        "received",
        "sent",
    )
    return Cells(
        head, rows, range(len(head) - 6, len(head)), max(0, len(story.status.tasks) - _MOST_TASKS)
    )


def event_cells(story: Story) -> Cells:
    found = [(event, clause) for event in story.events if (clause := clause_of(event)) is not None]
    rows = [
        (_moment(event["run_s"]), event.get("task") or "", _shortened(clause))
        for event, clause in found
    ]
    left_out = len(rows) - _FIRST_EVENTS - _LAST_EVENTS
    shown = rows if left_out <= 0 else [*rows[:_FIRST_EVENTS], *rows[-_LAST_EVENTS:]]
    return Cells(("after", "task", "what"), shown, (0,), max(0, left_out))


def numbers(story: Story) -> dict[str, Any]:
    """For programs: what is in the tables, unrounded."""
    status = story.status
    tasks = [
        {
            "task": task.task,
            "host": task.host,
            "state": task.phase,
            "exit_code": task.exit_code,
            **asdict(story.use(task)),
        }
        for task in status.tasks
    ]
    return {
        "name": status.name,
        "run": status.run,
        "state": status.phase,
        "ok": status.ok,
        "exit_code": status.exit_code,
        "reason": status.text,
        "cause": status.cause,
        "remedy": status.remedy,
        "collateral": status.collateral,
        "length_s": story.length_s,
        **asdict(story.totals),
        "tasks": tasks,
        "ps": story.model["ps"] if story.model is not None else [],
    }


def _moment(run_s: float) -> str:
    """Seconds since the run began, as `1:02:03.4`."""
    tenths = round(10 * run_s)
    hours, minutes, seconds = tenths // 36000, tenths // 600 % 60, tenths % 600 / 10
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:04.1f}"
    return f"{minutes}:{seconds:04.1f}" if minutes else f"{seconds:.1f} s"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_CLAUSE else f"{text[:_LONGEST_CLAUSE]} ..."


def placement(story: Story) -> list[Held]:
    """None of a script, whose variables psclust does not know."""
    found = story.model["ps"] if story.model is not None else []
    total = sum(each["bytes"] for each in found) or 1
    return [
        Held(
            f"ps:{index}",
            each["variables"],
            format_bytes(each["bytes"]),
            round(100 * each["bytes"] / total),
            each["largest"] or "",
        )
        for index, each in enumerate(found)
    ]


def places(story: Story) -> list[tuple[str, str]]:
    totals = story.totals
    model = (
        totals.model_folder
        if totals.model_host in (None, LOCALHOST.name)
        else f"{totals.model_folder} on {totals.model_host}"
    )
    found = [("model", model), ("logs", str(story.folder.logs)), ("run", str(story.folder.path))]
    if story.origin is not None:
        found.append(("started from", str(story.origin)))
    return [(title, place) for title, place in found if place is not None]


def versions(story: Story) -> str:
    parts = [("psclust", story.status.psclust), ("Python", story.python)]
    parts.append(("TensorFlow", story.model["tensorflow"] if story.model is not None else None))
    return ", ".join(f"{name} {version}" for name, version in parts if version)


def began(story: Story) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(story.status.began))


def length(story: Story) -> str:
    return f"{'' if story.status.ended else 'so far '}{duration(story.length_s)}"
