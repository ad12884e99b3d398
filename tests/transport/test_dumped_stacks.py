"""Programs that write the stacks of their threads when asked, for hosts without py-spy; others are
left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from psclust.testing.wait import wait_until
from psclust.transport.dumped_stacks import dumped_stacks, parse_stacks
from psclust.transport.process_facts import process_facts

DUMP = """Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/home/me/train.py", line 9 in feed <lambda>

Thread 0x00007f02 [worker] (most recent call first):
  <no Python frame>

Current thread 0x00007f03 (most recent call first):
  File "/home/me/a b.py", line 4 in nap
  File "/home/me/a b.py", line 5 in <module>
"""
PROGRAM = """
import os, select, signal, threading
from psclust.runtime.stack_dump import offer_stacks
offer_stacks(os.environ)
{more}
def nap():
    select.select([0], [], [])
def feed():
    nap()
threading.Thread(target=feed).start()
print("up", flush=True)
nap()
print("well", flush=True)
"""
MAIN = ["nap", "<module>"]


@contextmanager
def running(folder: Path, more: str = "", **variables: str) -> Iterator[subprocess.Popen[str]]:
    """The program, which must have ended well at the end."""
    env = {**os.environ, "PSCLUST_PROGRESS": str(folder / "worker-0.json"), **variables}
    command = [sys.executable, "-c", PROGRAM.format(more=more)]
    with subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.stdin.close()
        assert process.stdout.read() == "well\n"
        assert process.wait() == 0


def functions(pid: int) -> list[list[str]]:
    return [[function for function, _, _ in stack] for stack in dumped_stacks(pid)]


def test_a_dump_is_read_with_the_main_thread_first() -> None:
    main, feed, other = parse_stacks(DUMP)
    assert main == (("nap", "/home/me/a b.py", 4), ("<module>", "/home/me/a b.py", 5))
    assert [frame[0] for frame in feed] == ["wait", "feed <lambda>"]
    assert other == ()
    assert parse_stacks("") == ()


def test_of_two_dumps_the_first_is_taken() -> None:
    assert parse_stacks(f"{DUMP}{DUMP}") == parse_stacks(DUMP)
    # A thread has begun meanwhile.
    new = 'Thread 0x00007f09 (most recent call first):\n  File "a.py", line 1 in f\n\n'
    assert parse_stacks(f"{DUMP}{new}{DUMP}")[:3] == parse_stacks(DUMP)


def test_of_very_many_threads_the_main_thread_may_be_missing() -> None:
    many = (
        "".join(
            f'Thread 0x{i:x} (most recent call first):\n  File "a.py", line 1 in f\n\n'
            for i in range(100)
        )
        + "...\n"
    )
    found = parse_stacks(f"{many}{many}")
    assert (found[0], len(found)) == ((), 101)


def test_a_program_writes_its_stacks_and_goes_on(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        for _ in range(2):  # a second dump replaces the first
            wait_until(lambda: functions(process.pid)[:1] == [MAIN], what="its place")
        assert ["nap", "feed"] in [stack[:2] for stack in functions(process.pid)[1:]]


@pytest.mark.parametrize(
    "more",
    [
        "import faulthandler; faulthandler.unregister(63)",
        "import os; os.closerange(100, 1000)",
    ],
)
def test_a_program_that_takes_its_offer_back_gets_no_signal(tmp_path: Path, more: str) -> None:
    with running(tmp_path, more) as process:
        assert dumped_stacks(process.pid) == ()


def test_a_program_that_uses_the_signal_keeps_it(tmp_path: Path) -> None:
    ignore = "import signal; signal.signal(63, signal.SIG_IGN)\n"
    program = ignore + PROGRAM.format(more="print(signal.getsignal(63) is signal.SIG_IGN)")
    env = {**os.environ, "PSCLUST_PROGRESS": str(tmp_path / "worker-0.json")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=env,
        input="",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\nup\nwell\n"
    assert not (tmp_path / "worker-0.stacks").exists()


def test_outside_a_run_nothing_is_offered(tmp_path: Path) -> None:
    with running(
        tmp_path, PSCLUST_PROGRESS=str(tmp_path / "no" / "such" / "folder.json")
    ) as process:
        assert dumped_stacks(process.pid) == ()


def test_without_py_spy_the_program_is_asked_unless_it_is_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as process:
        monkeypatch.setattr(sys, "executable", "/nonexistent/python")
        monkeypatch.setenv("PATH", "/nonexistent")

        def main() -> list[str]:
            found = process_facts(process.pid, stacks=True)
            return [frame.function for frame in found.main_thread]

        wait_until(lambda: main() == MAIN, what="its place")
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: process_facts(process.pid, stacks=False).is_frozen, what="the stop")
        assert (
            process_facts(process.pid, stacks=True).no_stack
            == "py-spy is not installed beside /nonexistent/python: pip install py-spy"
        )
