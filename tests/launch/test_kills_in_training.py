"""A training goes on, and still learns, when a task of it is killed in the middle."""

from __future__ import annotations

import os
import re
import signal

import pytest

from beds.command import CommandBed
from psclust.testing.wait import wait_until

# In `make test`, tests/train/test_faults.py kills tasks of smaller trainings.
pytestmark = [pytest.mark.process, pytest.mark.tensorflow, pytest.mark.long]


@pytest.mark.parametrize(
    ("replication", "update", "victim"),
    [
        ("between-graph", "--async", "ps:0"),
        ("in-graph", "--sync", "worker:0"),
        ("between-graph", "--sync", "worker:1"),
        ("in-graph", "--async", "client:0"),
    ],
)
def test_the_digits_are_learned_although_a_task_is_killed(
    bed: CommandBed, replication: str, update: str, victim: str
) -> None:
    how = ("--ps", "2", "--workers", "2", "--replication", replication, update)
    up = bed.start("up", *how, "psclust.examples.digits:program", "--set", "epochs=60")
    wait_until(lambda: "| step " in up.output, what="the first steps")
    task = bed.task(victim)
    assert task is not None
    assert task.pid is not None
    os.kill(task.pid, signal.SIGKILL)
    assert up.wait(300) == 0, up.output
    assert f"{victim}: attempt 2 starts" in up.output
    found = re.search(r"evaluation: accuracy (\S+) ", up.output)
    assert found, up.output
    assert float(found[1]) >= 0.96
