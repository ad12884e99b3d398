"""The main job: all four ways of training reach 96 % on held-out digits, end by themselves and
leave nothing behind."""

from __future__ import annotations

import pytest
from four_ways import in_all_four_ways

from beds.command import CommandBed, typed
from beds.learning import DIGITS, is_learned

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


# Between-graph in step is in test_hosts_with_tensorflow_alone.py.
@in_all_four_ways(cheap=("in-graph", "--sync"))
def test_the_digits_are_learned(bed: CommandBed, replication: str, update: str) -> None:
    said = bed.done(*typed(f"up --ps 2 --workers 2 --replication {replication} {update} {DIGITS}"))
    assert is_learned(said), said
    assert "ended well" in said
    status = bed.status()
    assert not bed.bound_ports(status)
    assert all(task.pid is None for task in status.tasks)
    assert not bed.processes()
