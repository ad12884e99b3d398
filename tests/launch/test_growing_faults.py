"""`psclust scale` at bad moments: the run does what was asked last, and its checkpoint counts each
example once an epoch."""

from __future__ import annotations

import signal

import pytest

from beds.command import CommandBed
from beds.growing import BATCH, WAYS, Growing, growing
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


def _workers(run: Growing) -> int:
    return sum(task.task.startswith("worker") for task in run.bed.status().tasks)


@pytest.mark.long
def test_ctrl_c_ends_scale_and_the_change_is_made_all_the_same(bed: CommandBed) -> None:
    run = growing(bed, "between-graph --async", examples=1000)
    scaling = bed.start("scale", "worker=1")
    scaling.until("worker:1 leaves")
    scaling.interrupt()
    # It may have been made just before.
    assert scaling.wait() in (0, 130), scaling.output
    wait_until(lambda: _workers(run) == 1, what="a run of one worker")
    run.hurry()
    assert set(run.used()) == {run.epochs}


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_at_once_and_at_the_very_end(bed: CommandBed, way: str) -> None:
    run = growing(bed, way, examples=1500)
    run.scale(3)
    run.hurry()
    # Steps of three workers together, if synchronous.
    updates = run.examples * run.epochs // BATCH // (3 if way.endswith("--sync") else 1)
    for share, count in ((0.8, 4), (0.97, 2)):
        run.reach(int(share * updates))
        code, said = run.bed.run("scale", f"worker={count}")
        assert code == 0 or any(
            text in said for text in ("try again", "about to end", "no run is live", "is over")
        ), said
    assert set(run.used()) == {run.epochs}


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_ps_is_killed_while_workers_come_and_go(bed: CommandBed, way: str) -> None:
    run = growing(bed, way, examples=2000, restart={"max": 10, "backoff": 0.1})
    run.reach(10)
    for number, count in enumerate((4, 2)):
        scaling = bed.start("scale", f"worker={count}")
        scaling.until("; ")
        bed.signal(f"ps:{number}")
        assert scaling.wait() == 0, scaling.output
        bed.wait_for(f"ps:{number}", "running", attempt=2)
    run.hurry()
    # An asynchronous checkpoint may have a batch of a worker without its update.
    bound = 0 if way.endswith("--sync") else 2 * 4 * BATCH
    assert sum(abs(used - run.epochs) for used in run.used()) <= bound


@pytest.mark.long
def test_while_the_chief_starts_again_it_waits_or_is_refused(bed: CommandBed) -> None:
    run = growing(bed, "between-graph --async", examples=2000)
    run.reach(10)
    bed.signal("worker:0", signal.SIGKILL)
    code, said = bed.run("scale", "worker=4")
    assert code == 0 or "try again" in said, said
    bed.wait_for("worker:0", "running", attempt=2)
    if code:
        run.scale(4)
    assert _workers(run) == 4
    run.hurry()
    assert sum(abs(used - run.epochs) for used in run.used()) <= BATCH
