"""The clock of one run: what its processes see and wait for, while the machine's stays."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from faults import clock

pytestmark = pytest.mark.process

DAY_S = 86400.0
# Prints the clocks; then waits on a semaphore until a minute from now by the wall clock.
_PROGRAM = """
import ctypes, json, subprocess, sys, time

clocks = [time.time(), time.clock_gettime(time.CLOCK_REALTIME), time.monotonic()]
date = float(subprocess.run(["date", "+%s"], capture_output=True, text=True).stdout)
until = (ctypes.c_long * 2)(int(time.time()) + 60, 0)
print(json.dumps([*clocks, date]), flush=True)
libc = ctypes.CDLL(None, use_errno=True)
semaphore = ctypes.create_string_buffer(64)
libc.sem_init(semaphore, 0, 0)
print(libc.sem_timedwait(semaphore, until), ctypes.get_errno(), flush=True)
"""


@pytest.fixture
def clocks(tmp_path: Path) -> clock.Clocks:
    return clock.Clocks(tmp_path / "clock", [socket.gethostname()])


def start(folder: Path) -> subprocess.Popen[str]:
    environ = {**os.environ, **clock.environment(folder / "clock")}
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], env=environ, stdout=subprocess.PIPE, text=True
    )


def seen(process: subprocess.Popen[str]) -> list[float]:
    assert process.stdout is not None
    return list(json.loads(process.stdout.readline()))


def test_a_step_moves_the_wall_clock_and_ends_waits_for_it(
    clocks: clock.Clocks, tmp_path: Path
) -> None:
    clocks.start()
    clocks.step(-DAY_S)
    with start(tmp_path) as process:
        wall, real, monotonic, date = seen(process)
        for time_s in (wall, real, date):
            assert time_s == pytest.approx(time.time() - DAY_S, abs=60)
        assert monotonic == pytest.approx(time.monotonic(), abs=60)
        began = time.monotonic()
        clocks.step(DAY_S)
        assert process.stdout is not None
        result = process.stdout.read().split()
        assert result[0] == "-1"
        assert time.monotonic() - began < 30


def test_a_stopped_clock_changes_nothing(clocks: clock.Clocks, tmp_path: Path) -> None:
    clocks.start()
    clocks.step(DAY_S)
    clocks.stop()
    with start(tmp_path) as process:
        wall, real, _, date = seen(process)
        for time_s in (wall, real, date):
            assert time_s == pytest.approx(time.time(), abs=60)
        process.kill()
