"""`samples.jsonl`: what the tasks of a run used and how far they were, over time. docs/events.md is
its reference.

The file stays small: once it is full, every other sample is removed, and from then on they are
taken half as often. What a task has used is recorded as a total since its attempt began, so rates
between any two samples are exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.whole_lines import WholeLines, read_lines
from psclust.spec.typed_json import Measured, build, parse_json

FORMAT = 1
MOST_SAMPLES = 480
MOST_BYTES = 4_000_000
_FIRST_INTERVAL_S = 0.5  # programs write their progress as often


@dataclass(frozen=True, slots=True)
class TaskSample:
    """cpu_s, received, sent: seconds of CPU and bytes on TCP connections since the attempt began.
    memory: resident bytes. The others as the program reports them. None: unknown."""

    attempt: int
    cpu_s: float | None = None
    memory: int | None = None
    received: int | None = None
    sent: int | None = None
    step: int | None = None
    loss: Measured | None = None
    examples_per_s: Measured | None = None
    staleness: Measured | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The tasks at one moment. time: seconds since the epoch. run_s: seconds since the supervisor
    began."""

    time: float
    run_s: float
    tasks: Mapping[str, TaskSample]

    def to_json(self) -> str:
        """Without what is not known."""
        tasks = {
            task: {name: value for name, value in asdict(each).items() if value is not None}
            for task, each in self.tasks.items()
        }
        return json.dumps(
            {"time": round(self.time, 3), "run_s": round(self.run_s, 3), "tasks": tasks}
        )


class SamplesFile:
    """Appends to the file at `path`. A full disk costs samples, nothing else. interval_s: how often
    to take one."""

    def __init__(self, path: Path) -> None:
        self._lines = WholeLines(path)
        self._count = 0
        self._bytes = 0
        self.interval_s = _FIRST_INTERVAL_S

    def append(self, sample: Sample) -> None:
        head = json.dumps({"format": FORMAT}) + "\n" if not self._bytes else ""
        data = f"{head}{sample.to_json()}\n".encode()
        if self._lines.append(data):
            self._count += 1
            self._bytes += len(data)
        if self._count >= MOST_SAMPLES or self._bytes >= MOST_BYTES:
            self._thin()

    def _thin(self) -> None:
        with suppress(OSError):
            head, *samples = self._lines.path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = samples[1::2]
            write_atomically(self._lines.path, "".join([head, *kept]))
            self._lines.close()
            self._count, self._bytes = len(kept), self._lines.path.stat().st_size
            self.interval_s *= 2


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples so far, in order; none if there is no file. Ignores an unfinished last line,
    lines that are no samples, and fields that it does not know."""
    for line in read_lines(path):
        with suppress(ValueError):
            yield build(Sample, parse_json(line))
