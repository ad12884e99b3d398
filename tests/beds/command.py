"""Run the real `psclust` command in its own folder, and check that it leaves nothing behind."""

from __future__ import annotations

import io
import os
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.spec.cluster import Task
from psclust.testing.wait import PATIENCE_S, wait_until


def typed(line: str) -> list[str]:
    """The words of a command line, as a shell splits what is typed."""
    return shlex.split(line)


@contextmanager
def _variables(own: Mapping[str, str]) -> Iterator[None]:
    """Sets them in this process. No others are touched, not even by the same value: a thread in C
    (of gRPC, of TensorFlow) may read one at that moment, and then the process may end."""
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass
class Running:
    """A `psclust` process in the background, with stdout and stderr in one file."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self, deadline_s: float = PATIENCE_S) -> int:
        """The exit code. Raises TimeoutError, with the output so far."""
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(
                f"psclust still runs after {deadline_s:g} s; its output:\n{self.output}"
            ) from None

    def until(self, text: str, times: int = 1) -> None:
        """Wait for a text in the output."""
        wait_until(lambda: self.output.count(text) >= times, what=f"{text!r}")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


@dataclass
class CommandBed:
    """A folder with its own state directory. Every process started from it has a mark in its
    environment, by which leftovers are found."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = (sys.executable, "-m", "psclust")
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def state(self) -> Path:
        return self.folder.parent / f"{self.folder.name}-state"

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> Running:
        log = self.state.parent / f"{uuid.uuid4().hex}.out"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*self.command, *args],
                cwd=self.folder,
                env=self.environment(env),
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        return Running(process, log)

    def run(
        self, *args: str, env: Mapping[str, str] | None = None, deadline_s: float = PATIENCE_S
    ) -> tuple[int, str]:
        """Exit code and output."""
        running = self.start(*args, env=env)
        return running.wait(deadline_s), running.output

    def done(
        self, *args: str, env: Mapping[str, str] | None = None, deadline_s: float = PATIENCE_S
    ) -> str:
        """The output of a command that must end well."""
        code, said = self.run(*args, env=env, deadline_s=deadline_s)
        assert code == 0, said
        return said

    def fails(self, expected: int, *args: str, env: Mapping[str, str] | None = None) -> str:
        """The output of a command that must end with this exit code."""
        code, said = self.run(*args, env=env)
        assert code == expected, said
        return said

    def done_here(self, *args: str) -> str:
        """As `done`, called as by `run_here`."""
        return self.fails_here(0, *args)

    def fails_here(self, expected: int, *args: str) -> str:
        """As `fails`, called as by `run_here`."""
        code, said = self.run_here(*args)
        assert code == expected, said
        return said

    def run_here(self, *args: str) -> tuple[int, str]:
        """Exit code and output of a command that starts no process, called in this one: many times
        faster than `run`."""
        from psclust.cli.main import run

        folder, said = os.getcwd(), io.StringIO()
        try:
            os.chdir(self.folder)
            with _variables(self._own()), redirect_stdout(said), redirect_stderr(said):
                code = run(args)
        finally:
            os.chdir(folder)
        return code, said.getvalue()

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of the command."""
        return {**os.environ, **self._own(), **(extra or {})}

    def _own(self) -> dict[str, str]:
        own = {
            "PSCLUST_STATE": str(self.state),
            "CUDA_VISIBLE_DEVICES": "",
            "COMMAND_BED": self.mark,
        }
        return own | self.environ

    def cluster(self, name: str | None = None) -> ClusterFolder:
        return ClusterFolder(self.state / (name or self.name))

    def run_folder(self, name: str | None = None) -> RunFolder:
        folder = wait_until(self.cluster(name).current, what="a run's folder")
        assert folder is not None
        return folder

    def status(self, name: str | None = None) -> RunStatus:
        """As soon as there is one."""
        path = self.run_folder(name).status
        wait_until(path.exists, what="a run's status")
        return RunStatus.from_json(path.read_text(encoding="utf-8"))

    def supervisor(self) -> psutil.Process:
        return psutil.Process(self.status().supervisor)

    def wait_for_end(self) -> RunStatus:
        """The last status of the run."""
        wait_until(lambda: self.status().ended, what="the end of the run")
        return self.status()

    def task(self, task: str, name: str | None = None) -> TaskStatus | None:
        return next((entry for entry in self.status(name).tasks if entry.task == task), None)

    def wait_for(
        self,
        task: str,
        phase: str,
        *,
        attempt: int = 1,
        deadline_s: float = PATIENCE_S,
        name: str | None = None,
    ) -> TaskStatus:
        """Wait until the task is in `phase`, in that attempt or a later one."""

        def there() -> TaskStatus | None:
            entry = self.task(task, name)
            return entry if entry and entry.phase == phase and entry.attempt >= attempt else None

        found = wait_until(there, deadline_s, what=f"{task} {phase}, attempt {attempt}")
        assert found is not None
        return found

    def signal(self, task: str, number: int = signal.SIGKILL, *, attempt: int = 1) -> None:
        """Send it to the process of the task, once that runs."""
        pid = self.wait_for(task, "running", attempt=attempt).pid
        assert pid is not None
        os.kill(pid, number)

    def log(self, task: str, attempt: int = 1) -> str:
        path = self.run_folder().log(Task.parse(task), attempt)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def processes(self) -> list[psutil.Process]:
        """All live processes started from this folder."""
        needle = f"COMMAND_BED={self.mark}".encode()
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if (
                    needle in Path(f"/proc/{process.pid}/environ").read_bytes()
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        return found

    def bound_ports(self, status: RunStatus) -> list[str]:
        """The addresses of the run at which a process still listens."""
        ports = {int(task.address.rpartition(":")[2]) for task in status.tasks if task.address}
        return [
            str(entry.laddr)
            for entry in psutil.net_connections("tcp")
            if entry.laddr and entry.laddr.port in ports and not entry.raddr
        ]

    def end(self) -> Sequence[str]:
        """Kill the processes that are left; returns their pids and command lines."""
        left = [
            f"{process.pid} {' '.join(process.cmdline())[:200]}" for process in self.processes()
        ]
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()
        return left
