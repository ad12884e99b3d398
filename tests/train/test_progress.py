"""The progress file and the lines about training."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from psclust.rundir.task_progress import Progress
from psclust.testing.wait import PATIENCE_S, wait_until
from psclust.train.progress_file import ProgressFile
from psclust.train.reporter import Reporter


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def step_in(path: Path) -> Any:
    return json.loads(path.read_text())["step"] if path.exists() else None


def test_the_file_is_replaced_at_most_twice_a_second(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    file = ProgressFile(path)
    seen = set()
    until = time.monotonic() + 1.3
    step = 0
    while time.monotonic() < until:
        step += 1
        file.write(lambda step=step: Progress(step))
        if path.exists():
            seen.add(path.stat().st_mtime_ns)
    assert len(seen) <= 3
    # Also the last of them, after which no step comes.
    wait_until(lambda: step_in(path) == step, what="the last step")
    file.write(lambda: Progress(step + 1), force=True)
    assert step_in(path) == step + 1
    assert [each.name for each in tmp_path.iterdir()] == ["p.json"]


def test_no_step_waits_for_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    slow = path.with_name(f".p.json.{os.getpid()}")
    os.mkfifo(slow)  # it is open for writing when somebody reads
    file = ProgressFile(path)
    steps = Thread(
        target=lambda: [file.write(lambda step=step: Progress(step)) for step in range(100)],
        daemon=True,
    )
    steps.start()
    steps.join(PATIENCE_S)
    assert not steps.is_alive()
    assert json.loads(slow.read_text())["step"] in range(100)
    wait_until(path.exists, what="the file")


@pytest.mark.parametrize("path", ["/proc/nothing/p.json", "/dev/full/p.json"])
@pytest.mark.parametrize("force", [False, True])
def test_a_file_that_cannot_be_written_does_not_disturb(path: str, force: bool) -> None:
    file = ProgressFile(Path(path))
    for step in range(3):
        file.write(lambda step=step: Progress(step), force=force)


def test_a_full_disk_leaves_the_last_good_file_and_no_rest(tmp_path: Path) -> None:
    target = tmp_path / "p.json"
    ProgressFile(target).write(lambda: Progress(1), force=True)
    target.with_name(f".p.json.{os.getpid()}").symlink_to("/dev/full")
    ProgressFile(target).write(lambda: Progress(2), force=True)
    assert json.loads(target.read_text())["step"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_the_rate_is_that_of_the_last_second(tmp_path: Path) -> None:
    clock = _Clock()
    reporter = Reporter(ProgressFile(None), 60.0, clock)
    for _ in range(4):
        clock.now += 0.25
        reporter.step(1, 0.5, 32)
    assert reporter.progress.examples_per_s == 128.0
    clock.now += 2.0
    reporter.step(2, 0.5, 32)
    assert reporter.progress.examples_per_s == 16.0


def test_a_loss_of_minus_zero_is_zero(caplog: pytest.LogCaptureFixture) -> None:
    reporter = Reporter(ProgressFile(None), 0.0, _Clock())
    with caplog.at_level(logging.INFO):
        reporter.step(1, -0.0, 1, 0)
    assert caplog.messages == ["step 1 loss 0 staleness 0.0 (max 0)"]
    assert str(reporter.progress.loss) == "0.0"


def test_the_file_is_json_also_when_the_loss_is_not_a_number(tmp_path: Path) -> None:
    reporter = Reporter(ProgressFile(tmp_path / "p.json"), 60.0, _Clock())
    reporter.step(3, float("nan"), 1)
    reporter.phase("done", 4, {"accuracy": 0.5})
    found = json.loads((tmp_path / "p.json").read_text(), parse_constant=pytest.fail)
    assert found == {
        "step": 4,
        "loss": None,
        "examples_per_s": None,
        "phase": "done",
        "metrics": {"accuracy": 0.5},
        "seconds": {"start": 0.0},
        "model": None,
    }


def test_asynchronous_steps_that_arrive_out_of_order_never_count_down() -> None:
    reporter = Reporter(ProgressFile(None), 60.0)
    reporter.step(7, 0.1, 1)
    reporter.step(6, 0.1, 1)
    assert (reporter.progress.step, reporter.steps) == (7, 2)


def test_a_line_and_the_file_have_stale_updates_and_late_gradients_at_the_interval(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = _Clock()
    reporter = Reporter(ProgressFile(tmp_path / "p.json"), 2.0, clock)
    with caplog.at_level(logging.INFO):
        for step, staleness in enumerate((0, 3, 0, 0, 7, 7), 1):
            clock.now += 1.0
            reporter.step(step, 0.25, 10, staleness)
            if step == 3:
                reporter.dropped()
    reporter.phase("done")
    # Each line has the staleness since the one before.
    assert caplog.messages == [
        "step 2 loss 0.25 10 examples/s staleness 1.5 (max 3)",
        "step 4 loss 0.25 10 examples/s 1 late staleness 0.0 (max 0)",
        "step 6 loss 0.25 10 examples/s 1 late staleness 7.0 (max 7)",
    ]
    assert json.loads((tmp_path / "p.json").read_text())["metrics"] == {
        "late_gradients": 1,
        "staleness": 17 / 6,
        "staleness_max": 7,
    }
    assert reporter.remarks == ", 1 late gradient dropped, staleness 2.8 (max 7)"


def test_the_time_of_phases_and_within_them_is_counted() -> None:
    clock = _Clock()
    reporter = Reporter(ProgressFile(None), 60.0, clock)
    clock.now += 2.0
    reporter.phase("train")
    clock.now += 1.0
    for _ in range(2):
        with reporter.during("saving"):
            clock.now += 0.5
    reporter.phase("save")
    assert reporter.progress.seconds == {"start": 2.0, "train": 2.0, "saving": 1.0}
