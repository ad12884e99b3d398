"""Starts in flight, pids and exits, in every order in which they may come."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from beds.plans import program_plan
from psclust.spec.cluster import Task
from psclust.testing.wait import wait_until
from psclust.transport.task_processes import StartInFlight, TaskProcesses

pytestmark = pytest.mark.process

TASK = Task("worker", 0)


@dataclass
class Listener:
    heard: list[str] = field(default_factory=list)

    def started(self, task: Task, pid: int) -> None:
        self.heard.append("started")

    def not_started(self, task: Task, reason: str) -> None:
        self.heard.append(f"not started: {reason}")

    def exited(self, task: Task, code: int, out_of_memory: str | None = None) -> None:
        self.heard.append(f"exited {code}")

    def soon(self, work: Callable[[], None]) -> None: ...


@dataclass
class Bed:
    listener: Listener
    processes: TaskProcesses
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def begin(self) -> StartInFlight:
        start = StartInFlight(program_plan(TASK, "localhost", ("run",)), 1, Path("log"), 2)
        self.processes.begin(start)
        return start

    def fork(self, command: str) -> int:
        """As a fork server would, in a session of its own."""
        self.children.append(subprocess.Popen(["/bin/sh", "-c", command], start_new_session=True))
        return self.children[-1].pid

    def reap(self, pid: int) -> dict[int, int]:
        """Once the process has ended."""
        wait_until(
            lambda: (
                not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
            )
        )
        return self.processes.reap()


@pytest.fixture
def bed() -> Iterator[Bed]:
    listener = Listener()
    bed = Bed(listener, TaskProcesses(listener))
    yield bed
    for child in bed.children:
        if psutil.pid_exists(child.pid):
            child.kill()
        child.returncode = 0  # reaped above


def test_a_process_is_reported_and_so_is_its_exit(bed: Bed) -> None:
    start, pid = bed.begin(), bed.fork("exit 3")
    bed.processes.started(start, pid)
    assert pid not in bed.reap(pid)
    assert bed.listener.heard == ["started", "exited 3"]


def test_an_exit_before_the_pid_is_known_is_reported_after_the_start(bed: Bed) -> None:
    start, pid = bed.begin(), bed.fork("exit 3")
    assert bed.reap(pid)[pid] == 3
    assert bed.listener.heard == []
    bed.processes.started(start, pid)
    assert bed.listener.heard == ["started", "exited 3"]


def test_a_signal_cancels_a_start_in_flight_and_its_process_is_killed(bed: Bed) -> None:
    start, pid = bed.begin(), bed.fork("sleep 300")
    bed.processes.signal(TASK, signal.SIGTERM)
    bed.processes.started(start, pid)
    assert bed.reap(pid)[pid] == -signal.SIGKILL
    assert bed.listener.heard == ["not started: stopped before it started"]


def test_the_failure_of_a_cancelled_start_is_not_reported_again(bed: Bed) -> None:
    start = bed.begin()
    bed.processes.signal(TASK, signal.SIGKILL)
    bed.processes.failed(start, "no memory")
    assert bed.listener.heard == ["not started: stopped before it started"]


def test_the_group_of_a_task_ends_with_its_leader(bed: Bed) -> None:
    start, pid = bed.begin(), bed.fork("sleep 300 & exit 0")
    (left,) = wait_until(lambda: _group(pid))
    bed.processes.started(start, pid)
    bed.reap(pid)
    wait_until(
        lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE
    )


def test_an_exit_without_a_start_in_flight_is_forgotten(bed: Bed) -> None:
    pid = bed.fork("exit 1")
    assert bed.reap(pid)[pid] == 1
    bed.processes.started(bed.begin(), pid)
    assert bed.listener.heard == ["started"]


def test_a_child_that_a_thread_waits_for_itself_does_no_harm(bed: Bed) -> None:
    """As the supervisor's threads run nvidia-smi and py-spy while its main thread reaps."""

    def run_tools() -> None:
        for _ in range(300):
            subprocess.run(["/bin/true"])

    tools = threading.Thread(target=run_tools)
    tools.start()
    while tools.is_alive():
        bed.processes.reap()


def _group(leader: int) -> list[int]:
    """The other processes of the leader's group."""
    return [
        process.pid
        for process in psutil.process_iter()
        if process.pid != leader and _leader(process.pid) == leader
    ]


def _leader(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
