"""A process that cannot start a thread ends, in place of waiting for it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

_BEGIN = """
import os, sys, threading
from psclust.failed_threads import end_when_threads_fail
end_when_threads_fail()
"""
_NO_MEMORY = """
def fail(self):
    raise MemoryError
thread = threading.Thread()
thread._bootstrap = fail.__get__(thread)
fail.__name__ = "_bootstrap"
thread.start()
"""
_OTHER = """
class Broken:
    def __del__(self):
        raise MemoryError("of another kind")
Broken()
threading.Thread(target=print, args=("started",)).start()
if (child := os.fork()) == 0:
    Broken()
    os._exit(0)
os.waitpid(child, 0)
"""


def run(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _BEGIN + text],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
        check=False,
    )


def test_a_thread_without_memory_ends_its_process() -> None:
    done = run(_NO_MEMORY)
    assert done.returncode == -signal.SIGKILL
    assert done.stderr == "psclust: no memory is left to start a thread\n"


def test_other_reports_are_printed_here_and_in_a_forked_process() -> None:
    done = run(_OTHER)
    assert done.returncode == 0
    assert done.stdout == "started\n"
    assert done.stderr.count("of another kind") == 2


def test_reports_are_whole_when_the_process_ends() -> None:
    done = run("""
class Broken:
    def __del__(self):
        raise ValueError("of a value")
for _ in range(300):
    Broken()
""")
    assert done.stderr.count("ValueError: of a value\n") == 300
