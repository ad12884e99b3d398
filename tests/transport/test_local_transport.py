"""Fork servers that cannot load what tasks need, and why: the interpreter, how it ended, its last
output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from beds.plans import program_plan
from psclust.spec.cluster import Task
from psclust.testing.wait import wait_until
from psclust.transport.local_transport import LocalTransport

pytestmark = pytest.mark.process


@dataclass
class Listener:
    """What a transport says of its tasks."""

    reasons: list[str] = field(default_factory=list)
    work: list[Callable[[], None]] = field(default_factory=list)

    def started(self, task: Task, pid: int) -> None: ...

    def not_started(self, task: Task, reason: str) -> None:
        self.reasons.append(reason)

    def exited(self, task: Task, code: int, out_of_memory: str | None = None) -> None: ...

    def soon(self, work: Callable[[], None]) -> None:
        self.work.append(work)


@dataclass
class Bed:
    """A real transport, whose owner is this thread."""

    folder: Path
    listener: Listener
    transport: LocalTransport

    def start(self, python: str | Path) -> None:
        argv = (str(python), "-c", "print('ran')")
        plan = program_plan(Task("worker", 0), "localhost", argv, preload="tensorflow")
        self.transport.start(plan, 1, self.folder / "log")

    def reason(self) -> str:
        """Why the task was not started."""

        def told() -> bool:
            self.transport.reap()
            while self.listener.work:
                self.listener.work.pop()()
            return bool(self.listener.reasons)

        wait_until(told, what="why it was not started")
        return self.listener.reasons[0]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Bed]:
    listener = Listener()
    with (tmp_path / "complaints").open("wb") as log:
        transport = LocalTransport(listener, dict(os.environ), {}, log.fileno())
        yield Bed(tmp_path, listener, transport)
        transport.close()


def interpreter(folder: Path, script: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_what_is_no_python_is_named_with_its_exit_code(here: Bed) -> None:
    here.start("/bin/false")
    assert here.reason() == (
        "/bin/false exited with code 1 before it had loaded TensorFlow and printed nothing.\n"
        "Name a Python from 3.10 on that has TensorFlow (`python:`, --python)."
    )


def test_the_last_lines_of_an_interpreter_that_fails_are_shown(here: Bed) -> None:
    python = interpreter(here.folder, "seq 100; echo 'SyntaxError: invalid syntax' >&2; exit 7")
    here.start(python)
    reason = here.reason()
    assert reason.startswith(
        f"{python} exited with code 7 before it had loaded TensorFlow, and printed:\n  92\n"
    )
    assert "\n  100\n  SyntaxError: invalid syntax\nName a Python" in reason
    assert "SyntaxError" in (here.folder / "complaints").read_text()


def test_one_that_is_killed_while_it_loads_is_tried_once_more_and_named(here: Bed) -> None:
    python = interpreter(here.folder, f"echo once >> {here.folder}/tries; kill -9 $$")
    here.start(python)
    assert here.reason().startswith(
        f"{python} was killed by SIGKILL before it had loaded TensorFlow"
    )
    assert (here.folder / "tries").read_text() == "once\n" * 2


def test_an_interpreter_that_is_not_there_is_a_sentence(here: Bed) -> None:
    here.start("/no/such/python")
    assert (
        here.reason() == "/no/such/python: No such file or directory. "
        "Name an interpreter that exists (`python:`)."
    )


@pytest.mark.tensorflow
def test_an_interpreter_without_room_for_tensorflow_says_so(here: Bed) -> None:
    python = interpreter(here.folder, f'ulimit -v 150000; exec {sys.executable} "$@"')
    here.start(python)
    reason = here.reason()
    assert str(python) in reason or sys.executable in reason
    assert "fork server was killed" not in reason
    assert "TensorFlow" in reason


@pytest.mark.tensorflow
def test_one_fork_server_serves_all_tasks_of_an_environment(here: Bed) -> None:
    before = {child.pid for child in psutil.Process().children()}
    for env in (
        {"TF_USE_LEGACY_KERAS": "1", "A": "1"},
        {"TF_USE_LEGACY_KERAS": "1", "A": "2"},
        {"A": "1"},
        {"OPENBLAS_NUM_THREADS": "1"},
    ):
        here.transport.warm(sys.executable, "tensorflow", env)
    assert len({child.pid for child in psutil.Process().children()} - before) == 2
