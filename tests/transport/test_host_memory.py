"""What is read of memory, in a real control group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beds.small_memory import small_memory
from psclust.transport.host_memory import MemoryKills, memory_left

pytestmark = pytest.mark.process

KILLED = """
import subprocess, sys
from pathlib import Path
from psclust.transport.host_memory import MemoryKills, memory_left
assert memory_left() < 150_000_000, memory_left()
kills, blind = MemoryKills(), MemoryKills(log=Path("/nowhere"))
child = subprocess.Popen([sys.executable, "-c", "x = [bytes([1]) * 10**7 for _ in range(40)]"])
code = child.wait()
print(code)
print(kills.evidence(child.pid, code).replace(str(child.pid), "PID"))
print(blind.evidence(child.pid, code))
print(blind.evidence(child.pid, code), blind.evidence(child.pid, 1))
"""


def test_a_kill_of_the_kernel_is_noticed_and_one_of_a_user_is_not() -> None:
    with small_memory(150_000_000) as command:
        done = subprocess.run(
            [*command, sys.executable, "-c", KILLED], capture_output=True, text=True, check=False
        )
    code, logged, counted, after = done.stdout.splitlines() or [done.stderr]
    assert code == "-9"
    # A container may not read the kernel's log.
    assert logged in ("the kernel's log names process PID, with 0.1 GB", counted)
    assert counted == "its control group counts an out-of-memory kill"
    assert after == "None None"


def test_a_kill_that_is_not_the_kernels_has_no_evidence() -> None:
    kills = MemoryKills()
    process = subprocess.Popen(["sleep", "600"])
    process.kill()
    assert kills.evidence(process.pid, process.wait()) is None


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    left = memory_left(tmp_path)
    assert left is not None
    assert left > 0  # of the machine
