"""The first process of a step: it stays as long as anything that it started, reports signals, and
takes all of it along."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from psclust.reach.slurm import on_node
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

SOURCE = Path(on_node.__file__).read_text(encoding="utf-8")


def start(command: str) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-S", "-E", "-c", SOURCE, command]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def alive(mark: str) -> Sequence[int]:
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        if (
            mark in (process.info["cmdline"] or ())
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ):
            found.append(process.info["pid"])
    return found


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("no-such-command", 127)],
)
def test_its_exit_code_is_the_commands(command: str, code: int) -> None:
    with start(command) as process:
        assert process.wait() == code


def test_input_and_output_are_the_commands() -> None:
    with start("cat; echo end") as process:
        output, _ = process.communicate(b"\x00\xff\n" * 100_000)
    assert output == b"\x00\xff\n" * 100_000 + b"end\n"


def test_it_stays_as_long_as_a_daemon_that_the_command_has_left(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    with start(f"setsid --fork sh -c 'sleep 1000; :' {mark}; exit 3") as process:
        wait_until(lambda: alive(mark), what="the daemon")
        (daemon,) = alive(mark)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        # The daemon first: it would end by itself after its child.
        for each in [psutil.Process(daemon), *psutil.Process(daemon).children()]:
            each.kill()
        assert process.wait() == 3


def test_it_reports_signals_and_nothing_survives_its_end() -> None:
    mark = uuid.uuid4().hex
    with start(
        f"setsid --fork sh -c 'sleep 1000; :' {mark}; sh -c 'sleep 1000; :' {mark}"
    ) as process:
        wait_until(lambda: len(alive(mark)) >= 2, what="both processes")
        # As proctrack/linuxproc does, to all descendants.
        for each in [
            *psutil.Process(process.pid).children(recursive=True),
            psutil.Process(process.pid),
        ]:
            each.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == b"\x01slurm SIGTERM\n"
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == b"\x01slurm SIGUSR1\n"
        assert len(alive(mark)) >= 2
        process.kill()
        wait_until(lambda: not alive(mark), what="the end of both")
