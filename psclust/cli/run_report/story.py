"""The contents of a run's folder, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from psclust.cli.output import duration
from psclust.rundir.events_file import Record, read_events
from psclust.rundir.folder import RunFolder
from psclust.rundir.origin import Origin
from psclust.rundir.run_attempts import Attempt, run_attempts
from psclust.rundir.run_totals import RunTotals, run_totals
from psclust.rundir.samples_file import Sample, TaskSample, read_samples
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.spec.plurals import counted

_LONGEST_FILE = 20_000  # characters of a cluster file


@dataclass(frozen=True, slots=True)
class TaskUse:
    """Of all attempts of a task. memory: the most at once, in bytes. None: unknown."""

    cpu_s: float | None = None
    memory: int | None = None
    received: int | None = None
    sent: int | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """length_s: of the run so far. model: see `psclust.rundir.task_progress.Progress`. python: the
    version that the supervisor ran in."""

    status: RunStatus
    folder: RunFolder
    events: Sequence[Record]
    samples: Sequence[Sample]
    attempts: Sequence[Attempt]
    totals: RunTotals
    length_s: float
    model: Mapping[str, Any] | None
    python: str | None
    origin: Origin | None
    cluster_file: str | None

    @property
    def outcome(self) -> str:
        """`ended well`, `failed`, ... as a predicate of the run."""
        status = self.status
        if not status.ended:
            return f"is {status.phase}"
        return "ended well" if status.ok else "was stopped" if status.was_stopped else "failed"

    @property
    def failed(self) -> bool:
        return self.outcome == "failed"

    @property
    def reason(self) -> str | None:
        """Why a run that did not fail has ended, if that is worth a word."""
        text = self.status.text
        return None if self.failed or text in (None, "done") else text

    def use(self, task: TaskStatus) -> TaskUse:
        return _use(
            [sample.tasks[task.task] for sample in self.samples if task.task in sample.tasks]
        )


def read_story(folder: RunFolder, status: RunStatus) -> Story:
    events = list(read_events(folder.events))
    models = [each["model"] for each in events if each.get("model")]
    text = None
    with suppress(OSError):
        text = folder.cluster_file.read_text(encoding="utf-8")
    return Story(
        status=status,
        folder=folder,
        events=events,
        samples=list(read_samples(folder.samples)),
        attempts=run_attempts(events),
        totals=run_totals(events),
        length_s=max((each["run_s"] for each in events), default=0.0)
        if status.ended
        else status.age(status.began),
        model=models[-1] if models else None,
        python=next((each.get("python") for each in events if each["kind"] == "run"), None),
        origin=Origin.read(folder),
        cluster_file=text
        if text is None or len(text) <= _LONGEST_FILE
        else f"{text[:_LONGEST_FILE]}\n...",
    )


def _use(samples: Sequence[TaskSample]) -> TaskUse:
    last = list({sample.attempt: sample for sample in samples}.values())

    def total(name: str) -> Any:
        known = [value for sample in last if (value := getattr(sample, name)) is not None]
        return sum(known) if known else None

    memory = max((sample.memory for sample in samples if sample.memory is not None), default=None)
    return TaskUse(total("cpu_s"), memory, total("received"), total("sent"))


def clause_of(event: Record) -> str | None:
    """An event as a clause; None for those that a timeline shows."""
    match event["kind"]:
        case "start":
            return f"attempt {event['attempt']} starts on {event['host']}"
        case "not_started":
            return f"attempt {event['attempt']} got no process: {event['reason']}"
        case "exit":
            return (
                f"attempt {event['attempt']} {event['reason']}, after {duration(event['after_s'])}"
            )
        case "restart":
            known = event["reason"].startswith(("exited", "was killed"))  # the event before
            return f"gets another attempt in {duration(event['delay_s'])}" + (
                "" if known else f": {event['reason']}"
            )
        case "signal":
            return f"gets SIG{event['signal']}"
        case "host_silent" | "host_back":
            return (
                f"{event['host']}: "
                f"{'contact broke off' if event['kind'] == 'host_silent' else 'contact came back'}"
            )
        case "host_leaves":
            return f"{event['host']} is to be left: {event['reason']}"
        case "host_lost":
            return (
                f"{event['host']} is lost, "
                f"with {', '.join(event['tasks']) or 'no task'}: {event['reason']}"
            )
        case "move":
            return f"planned again without {', '.join(event['hosts'])}: {event['reason']}"
        case "replace":
            return f"gives its place to a spare slot on another host: {event['reason']}"
        case "workers":
            return _who(event)
        case "plan" if event["changed"] or event["removed"]:
            return f"the plan has changed: {', '.join([*event['changed'], *event['removed']])}"
        case "note" | "silence":
            return str(event["text"])
        case "stalled":
            return "no step was made; " + "; ".join(
                f"{each['task']}: {each['does']}" for each in event["findings"]
            )
        case "finishing":
            return (
                "the work is done; "
                f"{', '.join(event['tasks'])} may take {duration(event['limit_s'])} to end"
            )
        case "stopping":
            return f"the run ends: {event['reason']}"
        case "end":
            return f"the run has ended: {event['reason']}"
        case "unwritten":
            return f"{event['records']} events before this found no room on disk"
    return None


def _who(event: Record) -> str:
    """`worker:3 joins; worker:1 is dropped; 3 workers`."""
    verbs = (
        ("joined", "joins", "join"),
        ("left", "leaves", "leave"),
        ("dropped", "is dropped", "are dropped"),
    )
    parts = [
        f"{', '.join(event[key])} {one if len(event[key]) == 1 else several}"
        for key, one, several in verbs
        if event[key]
    ]
    return "; ".join([*parts, counted(event["number"], "worker")])
