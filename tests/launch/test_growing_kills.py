"""Workers are killed while others come and go: the training ends well, and its last checkpoint
counts each example once an epoch, but for the steps in which something was killed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress

import pytest

from beds.command import CommandBed
from beds.growing import BATCH, Growing, growing
from psclust.rundir.status import TaskStatus
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

CASES = [
    ("between-graph --async", 1, 3),
    *[("between-graph --async", seed, 10) for seed in (2, 3, 4)],
    *[("between-graph --sync", seed, 10) for seed in (5, 6)],
]


@pytest.mark.long
@pytest.mark.parametrize(("way", "seed", "kills"), CASES)
def test_the_counts_are_exact_but_for_steps_in_which_a_worker_was_killed(
    bed: CommandBed, way: str, seed: int, kills: int
) -> None:
    restart = {"max": 100, "backoff": 0.1, "max_backoff": 1}
    run = growing(bed, way, examples=6000, pause=0.3, restart=restart)
    chance = random.Random(seed)
    for number in range(kills):
        _wait_until_all_run(run)
        run.reach(max(map(run.step, _workers(run))) + chance.randrange(10))
        workers = chance.choice([count for count in range(1, 6) if count != len(_workers(run))])
        scaling = run.bed.start("scale", f"worker={workers}")
        _kill(run, ("any", "chief", "leaving")[number % 3], chance)
        assert scaling.wait() == 0, scaling.output
    _wait_until_all_run(run)
    run.hurry()
    used = run.used()
    if way.endswith("--sync"):
        assert set(used) == {run.epochs}
    else:
        assert sum(abs(count - run.epochs) for count in used) <= kills * BATCH


def _tasks(run: Growing) -> Sequence[TaskStatus]:
    return [task for task in run.bed.status().tasks if task.task.startswith("worker")]


def _workers(run: Growing) -> list[str]:
    return [task.task for task in _tasks(run)]


def _wait_until_all_run(run: Growing) -> None:
    wait_until(lambda: all(task.phase == "running" for task in _tasks(run)), what="all workers")


def _kill(run: Growing, who: str, chance: random.Random) -> None:
    """The chief, one that leaves if there is one, or any, as soon as the change is under way."""
    before = {task.task: task.pid for task in _tasks(run)}

    def victims() -> Sequence[TaskStatus]:
        now = _tasks(run)
        if {task.task: task.pid for task in now if task.phase != "stopping"} == before:
            return []
        leaving = [task for task in now if task.phase == "stopping" and task.pid]
        if who == "leaving" and leaving:
            return leaving
        return [task for task in now if task.pid and (who != "chief" or task.task == "worker:0")]

    victim = chance.choice(wait_until(victims, what="a change"))
    with suppress(ProcessLookupError):
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
