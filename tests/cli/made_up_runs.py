"""Folders of runs that never took place, as large as a test needs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from psclust.cli.run_report.story import Story, read_story
from psclust.rundir.events_file import EventsFile, record
from psclust.rundir.folder import RunFolder
from psclust.rundir.samples_file import Sample, SamplesFile, TaskSample
from psclust.rundir.status import RunStatus, TaskStatus

LENGTH_S = 100.0


def tasks(ps: int, workers: int) -> list[str]:
    return [
        *(f"ps:{number}" for number in range(ps)),
        *(f"worker:{number}" for number in range(workers)),
    ]


def names(task: str, attempt: int = 1) -> dict[str, Any]:
    return {"task": task, "host": "a", "attempt": attempt}


def made_up(
    path: Path, there: Sequence[str], *, looks: int = 50, deaths: int = 0, **status: Any
) -> Story:
    """A run of LENGTH_S in which the last task died `deaths` times, at even intervals, looked at
    `looks` times."""
    folder = RunFolder(path / "demo" / "20260102-030405-000000aa")
    folder.create()
    events = EventsFile(folder.events)
    plan = [
        {
            "task": task,
            "role": "server" if task.startswith("ps") else "program",
            "host": "a",
            "address": None,
        }
        for task in there
    ]
    first = record("run", name="demo", run=folder.id, psclust="0.1.0", python="3.12.1", format=1)
    events.append([first, record("plan", tasks=plan, changed=[], removed=[])], 1000.0, 0.0)
    for task in there:
        events.append([record("start", **names(task))], 1001.0, 1.0)
        events.append(
            [
                record(
                    "serving" if task.startswith("ps") else "process",
                    **names(task),
                    address="a:1",
                    pid=7,
                )
            ],
            1005.0,
            5.0,
        )
    dying = there[-1]
    for death in range(1, deaths + 1):
        at = 10.0 + 80.0 * death / deaths
        why = "was killed by SIGKILL"
        events.append(
            [record("exit", **names(dying, death), exit_code=137, reason=why, after_s=3.0)],
            1000 + at,
            at,
        )
        events.append(
            [record("restart", **names(dying, death), reason=why, delay_s=0.5)], 1000 + at, at
        )
        events.append([record("start", **names(dying, death + 1))], 1000.5 + at, at + 0.01)
        events.append([record("process", **names(dying, death + 1), pid=8)], 1000.6 + at, at + 0.02)
    model = {
        "folder": "/srv/model",
        "tensorflow": "2.21.0",
        "ps": [{"variables": 2, "bytes": 3000, "largest": "w"}] * there.count("ps:0"),
    }
    done = record(
        "progress",
        **names(there[0]),
        phase="done",
        step=400,
        loss=0.5,
        metrics={"accuracy": 0.875},
        seconds={},
        model=model,
    )
    events.append(
        [done, record("end", ok=True, exit_code=0, reason="done")], 1000 + LENGTH_S, LENGTH_S
    )
    samples = SamplesFile(folder.samples)
    for look in range(looks):
        at = LENGTH_S * (look + 1) / looks
        known = {task: _sample(number, at) for number, task in enumerate(there)}
        samples.append(Sample(1000.0 + at, at, known))
    shown = tuple(
        TaskStatus(task, "program", "done", "a", None, None, 1, 0, 0, 1000.0 + LENGTH_S, None)
        for task in there
    )
    values = {"ok": True, "exit_code": 0, "text": "done", "psclust": "0.1.0"} | status
    return read_story(
        folder, RunStatus("demo", folder.id, str(folder.path), "ended", 1, 1000.0, shown, **values)
    )


def _sample(number: int, at: float) -> TaskSample:
    grown = int(at * 123_456_789) + number
    return TaskSample(
        1,
        at * 0.7 + number,
        123_456_789 + grown % 1_000_007,
        grown,
        3 * grown,
        int(at),
        7 / at + number,
        1234.5 + at,
        1.25,
    )
