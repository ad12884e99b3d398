"""The source of a place in a program that runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from psclust.testing.wait import wait_until
from psclust.transport.process_facts import process_facts, source_line

LONG = "value = " + "1 + " * 40 + "1"
SOURCE = (
    f"import sys\nif True:\n    print(len(sys.argv))  # caf\u00e9\n{LONG}\n\nsys.stdin.read()\n"
)


@pytest.fixture
def pid(tmp_path: Path) -> Iterator[int]:
    """Of a program that waits in line 6 of train.py."""
    (tmp_path / "train.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "odd.py").write_bytes(b"\xff\n")
    os.utime(tmp_path / "train.py", (1e9, 1e9))
    with subprocess.Popen(
        [sys.executable, "train.py"], cwd=tmp_path, stdin=subprocess.PIPE
    ) as process:
        yield process.pid


@pytest.mark.process
def test_a_line_is_found_in_the_folder_of_the_process_and_cut(pid: int, tmp_path: Path) -> None:
    for line, text in [
        (3, "print(len(sys.argv))  # caf\u00e9"),
        (4, LONG[:57] + "..."),
        (5, None),
        (7, None),
        (0, None),
    ]:
        assert (
            source_line(pid, "train.py", line)
            == source_line(pid, str(tmp_path / "train.py"), line)
            == text
        )
    for name in ("none.py", "<string>", "odd.py", "."):
        assert source_line(pid, name, 1) is None


@pytest.mark.process
def test_a_file_that_has_changed_since_the_process_began_says_nothing(
    pid: int, tmp_path: Path
) -> None:
    os.utime(tmp_path / "train.py", (time.time() + 10, time.time() + 10))
    assert source_line(pid, "train.py", 3) is None
    assert source_line(2**22 + 1, str(tmp_path / "train.py"), 3) is None


@pytest.mark.process
def test_the_frames_of_the_main_thread_come_with_their_lines(pid: int) -> None:
    def texts() -> list[str | None] | None:
        facts = process_facts(pid, stacks=True)
        if facts.no_stack is not None:
            pytest.skip(facts.no_stack)
        return [frame.text for frame in facts.main_thread] if facts.main_thread else None

    assert wait_until(lambda: texts() == ["sys.stdin.read()"], what="the line") is not None
