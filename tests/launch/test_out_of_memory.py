"""A task that takes more memory than there is."""

from __future__ import annotations

import pytest

from beds.command import CommandBed
from beds.small_memory import small_memory

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
