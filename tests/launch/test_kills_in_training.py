"""A training goes on, and still learns, when a task of it is killed in the middle."""

from __future__ import annotations

import pytest

from beds.command import CommandBed, typed
from beds.learning import DIGITS, is_learned

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
    how = typed(f"--ps 2 --workers 2 --replication {replication} {update}")
    up = bed.start("up", *how, DIGITS, "--set", "epochs=60")
    up.until("| step ")
    bed.signal(victim)
    assert up.wait(300) == 0, up.output
    assert f"{victim}: attempt 2 starts" in up.output
    assert is_learned(up.output), up.output
