"""A task that takes more memory than there is."""

from __future__ import annotations

import json

import pytest
from on_hosts import isolated

from beds.command import CommandBed
from beds.hosts import HostBed
from beds.small_memory import little_memory_for, small_memory

pytestmark = pytest.mark.process

GROW = """
import time
kept = []
while True:
    kept.append(b"x" * 20_000_000)
    time.sleep(0.3)
"""


def test_the_cause_names_the_kernel_and_what_the_task_had(bed: CommandBed) -> None:
    bed.write("grow.py", GROW)
    bed.write(
        "psclust.yaml",
        "{jobs: {worker: {count: 1, run: [python3, grow.py]}}, restart: {max: 0}}",
    )
    with small_memory(500_000_000) as command:
        bed.command = (*command, *bed.command)
        said = bed.fails(1, "up")
    assert "worker:0 was killed by the kernel, which was out of memory (" in said
    assert "MB more than" in said
    assert "may have been out of memory" not in said


@pytest.mark.long
@isolated
def test_a_kill_on_another_host_is_named_with_its_host(far: CommandBed, hosts: HostBed) -> None:
    far.write("grow.py", GROW)
    worker = {"count": 2, "run": ["python3", "grow.py"]}
    data = {"hosts": ["h1", "h2"], "jobs": {"worker": worker}, "restart": {"max": 0}}
    far.write("psclust.yaml", json.dumps(data))
    with little_memory_for([each.pid for each in hosts[0].processes()], 500_000_000):
        said = far.fails(1, "up")
    assert "worker:0 was killed by the kernel, which was out of memory (its control group" in said
    assert "MB more than" in said
    (killed, other) = far.status().tasks
    assert (killed.host, killed.exit_code, other.host) == ("h1", 137, "h2")
