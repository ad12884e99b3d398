"""What is recorded of the readings of a run: totals since an attempt began."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from psclust.errors import PsclustError
from psclust.rundir.samples_file import SamplesFile, read_samples
from psclust.supervise.reading import Reading
from psclust.supervise.sampler import Sampler
from psclust.transport.task_usage import Usage


def reading(usage: Usage | None, *, attempt: int = 1, loss: float | None = None) -> Reading:
    return Reading("worker:0", "program", "a", "running", attempt, usage, loss=loss)


def test_totals_grow_over_closed_connections_and_begin_again_with_an_attempt(
    tmp_path: Path,
) -> None:
    sampler, path = (
        Sampler(list, SamplesFile(tmp_path / "samples.jsonl")),
        tmp_path / "samples.jsonl",
    )
    looks = [
        reading(None),
        reading(Usage(1.0, 50, {1: (10, 20)}), loss=0.5),
        reading(Usage(2.5, 60, {2: (1, 2)})),
        reading(Usage(0.0, 0, {})),  # its process has just ended
        reading(Usage(0.25, 70, {3: (5, 6)}), attempt=2),
        reading(Usage(0.5, 70, None), attempt=2),
    ]
    for second, look in enumerate(looks):
        sampler.take([look], 1000.0 + second, float(second))
    found = [(each.run_s, each.tasks["worker:0"]) for each in read_samples(path)]
    assert [
        (second, task.attempt, task.cpu_s, task.memory, task.sent, task.received)
        for second, task in found
    ] == [
        (1, 1, 1.0, 50, 10, 20),
        (2, 1, 2.5, 60, 11, 22),
        (4, 2, 0.25, 70, 5, 6),
        (5, 2, 0.5, 70, None, None),
    ]
    assert [task.loss for _, task in found] == [0.5, None, None, None]


class Waits(threading.Event):
    """Records how long it is waited for, and is set after three times."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        return len(self.seconds) > 2


def test_looks_that_cost_much_are_rare(tmp_path: Path) -> None:
    def look() -> list[Reading]:
        began = time.process_time()
        while time.process_time() - began < 0.02:
            pass
        return []

    waits, file = Waits(), SamplesFile(tmp_path / "samples.jsonl")
    Sampler(look, file).run(waits)
    # At most half a percent of a core.
    assert waits.seconds[0] == file.interval_s
    assert all(4.0 <= each < 60.0 for each in waits.seconds[1:])


def test_looks_at_many_tasks_are_rarer(tmp_path: Path) -> None:
    waits = Waits()
    Sampler(lambda: [reading(None)] * 500, SamplesFile(tmp_path / "samples.jsonl")).run(waits)
    assert waits.seconds[1] >= 50


def test_it_ends_with_the_run(tmp_path: Path) -> None:
    looks = [[reading(Usage(1.0, 50, {}))]]

    def look() -> list[Reading]:
        if not looks:
            raise PsclustError("the run has ended")
        return looks.pop()

    Sampler(look, SamplesFile(tmp_path / "samples.jsonl")).run(threading.Event())
    assert len(list(read_samples(tmp_path / "samples.jsonl"))) == 1
