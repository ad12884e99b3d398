"""The main job: all four ways of training reach 96 % on held-out digits, end by themselves and
leave nothing behind."""

from __future__ import annotations

import re

import pytest
from four_ways import in_all_four_ways

from beds.command import CommandBed

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


# Between-graph in step is in test_hosts_with_tensorflow_alone.py.
@in_all_four_ways(cheap=("in-graph", "--sync"))
def test_the_digits_are_learned(bed: CommandBed, replication: str, update: str) -> None:
    code, said = bed.run(
        "up",
        "--ps",
        "2",
        "--workers",
        "2",
        "--replication",
        replication,
        update,
        "psclust.examples.digits:program",
    )
    assert code == 0, said
    found = re.search(r"evaluation: accuracy (\S+) ", said)
    assert found, said
    assert float(found[1]) >= 0.96, said
    assert "ended well" in said
    status = bed.status()
    assert status is not None
    assert not bed.bound_ports(status)
    assert all(task.pid is None for task in status.tasks)
    assert not bed.processes()
