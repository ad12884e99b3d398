"""Ctrl-C in whatever `up` is doing on hosts: nothing is left there, and that it was stopped is its
last word."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from on_hosts import PATIENT, left, make_environment, write_file

from beds.command import CommandBed, Running
from beds.hosts import BedHost, HostBed
from beds.processes import words_of
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

# Far longer than a test: what nobody ends must be found, and not end by itself. Servers as well as
# programs, in processes of their own.
PATIENCE = {"lease": 900, "stop": 900}
JOBS = {"ps": {"count": 1, "run": "server"}, "worker": 3}

# Takes a note of a call, `ADDRESS NUMBER ARGUMENTS`, and waits while that matches the pattern in
# `held`.
NOTE = """#!/bin/bash
read -r _ _ address _ <<< "$SSH_CONNECTION"
notes={folder}/notes/$address
echo "$*" >> "$notes"
call="$address $(wc -l < "$notes") $*"
while [[ "$call" == $(cat {folder}/held) ]]; do sleep 0.02; done
"""
# An interpreter that does so first. By the name under which it is started Python finds its
# packages.
PYTHON = """#!/bin/bash
{folder}/note "$*"
exec -a "$0" {python} "$@"
"""
# The first process on a host does so, besides, in its copies, of which an agent is made.
FORKS = """
import os, subprocess, sys
if sys.argv == ["-c"]:
    os.register_at_fork(after_in_child=lambda: subprocess.run(["{folder}/note", "fork"]))
"""


@dataclass(frozen=True)
class Gate:
    """python: the interpreter on the hosts."""

    folder: Path
    python: Path

    def hold(self, pattern: str) -> None:
        """From now on, calls that match it wait. Counted from here."""
        for notes in (self.folder / "notes").iterdir():
            notes.unlink()
        self._write(pattern)

    def open(self) -> None:
        self._write("none")

    def calls(self, host: BedHost) -> list[str]:
        notes = self.folder / "notes" / host.address
        return notes.read_text().splitlines() if notes.exists() else []

    def _write(self, pattern: str) -> None:
        aside = self.folder / "aside"
        aside.write_text(pattern)
        aside.replace(self.folder / "held")


@pytest.fixture
def gate(far: CommandBed) -> Gate:
    folder = far.folder.parent / "gate"
    (folder / "notes").mkdir(parents=True)
    make_environment(folder / "env", "import forks")
    python, base = folder / "env" / "bin" / "python", os.path.realpath(sys.executable)
    python.unlink()
    for path, text in ((folder / "note", NOTE), (python, PYTHON)):
        path.write_text(text.format(folder=folder, python=base))
        path.chmod(0o755)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    (packages / "forks.py").write_text(FORKS.format(folder=folder))
    gate = Gate(folder, python)
    gate.open()
    return gate


def _ends_interrupted(running: Running) -> None:
    """With a word about that."""
    assert running.wait(300) == 130, running.output
    # The last line, but for where the output of a run is, and its report.
    told = [
        re.fullmatch(r"psclust: \w+ was stopped .*: interrupted \(Ctrl-C\)", line)
        for line in running.output.splitlines()[-3:]
    ]
    assert any(told), running.output


def _nothing_is_left(hosts: HostBed) -> None:
    try:
        wait_until(lambda: not left(hosts), what="the end of everything on the hosts")
    except TimeoutError:
        pytest.fail(f"still alive: {left(hosts)}")


@pytest.mark.long
def test_while_any_python_is_being_started_on_the_hosts(
    far: CommandBed, hosts: HostBed, gate: Gate
) -> None:
    """Looked at, sent to, agents, servers, programs: each is a Python or a copy of one, and each is
    held while Ctrl-C comes."""
    write_file(
        far, hosts, PATIENT, python=str(gate.python), ship=".", jobs=JOBS, deadlines=PATIENCE
    )
    running = far.start("up")
    running.until("is up")
    calls = min(len(gate.calls(host)) for host in hosts.hosts)
    assert calls >= 6
    assert gate.calls(hosts[0]).count("fork") == 3  # the starter, the guard, the agent
    running.interrupt()
    _ends_interrupted(running)
    _nothing_is_left(hosts)
    for number in range(1, calls + 1):
        gate.hold(f"* {number} *")
        running = far.start("up")
        wait_until(
            lambda n=number: any(len(gate.calls(host)) >= n for host in hosts.hosts),
            what=f"call {number}",
        )  # type: ignore[misc]
        running.interrupt()
        _ends_interrupted(running)
        gate.open()
        _nothing_is_left(hosts)


def test_while_a_host_is_logged_in_to(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT, deadlines=PATIENCE)
    hosts[3].cut()
    try:
        running = far.start("up")
        running.until("logging in to 4 hosts")
        running.interrupt()
        _ends_interrupted(running)
    finally:
        hosts[3].heal()
    _nothing_is_left(hosts)


def test_while_the_hosts_look_for_each_other(far: CommandBed, hosts: HostBed, gate: Gate) -> None:
    write_file(far, hosts, PATIENT, python=str(gate.python), name="meeting", deadlines=PATIENCE)
    gate.hold(f"{hosts[3].address} * fork")
    running = far.start("up")
    wait_until(lambda: all(_is_followed(host) for host in hosts.hosts[:3]), what="three agents")
    with _frozen(hosts[1]):
        gate.open()
        wait_until(lambda: _is_followed(hosts[3]), what="the last agent")
        # The next thing is to ask each for an address, and one of them cannot answer.
        running.interrupt()
    _ends_interrupted(running)
    _nothing_is_left(hosts)


def _is_followed(host: BedHost) -> bool:
    """Whether the run's supervisor is connected to its agent there."""
    logs = host.home.glob(f".local/state/psclust/agents/meeting/*/{host.name}/supervisor.log")
    return any(" watches from event " in log.read_text() for log in logs)


@contextmanager
def _frozen(host: BedHost) -> Iterator[None]:
    """The agent on the host makes no move."""
    agents = [process for process in host.processes() if "psclust.agent" in words_of(process)]
    for process in agents:
        process.suspend()
    try:
        yield
    finally:
        for process in agents:
            process.resume()
