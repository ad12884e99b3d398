"""A process of pytest that crashes is explained at the end of the output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

_CRASH = """
import ctypes, os, signal

def test_killed():
    os.kill(os.getpid(), signal.SIGKILL)

def test_fault():
    ctypes.string_at(0)

def test_left():
    os._exit(3)
"""


def test_the_end_of_each_crashed_process_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_crash.py").write_text(_CRASH)
    words = ("-m", "pytest", "-q", "-n1", "-p", "beds.crashed_workers", "-p", "no:kmock")
    own = {
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "TMPDIR": str(tmp_path),
        "PYTEST_ADDOPTS": "",
    }
    done = subprocess.run(
        [sys.executable, *words, "test_crash.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | own,
        check=False,
    )
    said = done.stdout.partition("= crashed workers =")[2]
    assert "ended with signal SIGKILL" in said, done.stdout + done.stderr
    assert "ended with exit code 3" in said
    assert "ended with signal SIGSEGV\n" in said
    if shutil.which("gcc"):
        assert "native stack of the thread that crashed:\n/" in said
    assert "Fatal Python error: Segmentation fault" in said
    assert "in test_fault" in said
    assert not list(tmp_path.glob("*.stacks"))
