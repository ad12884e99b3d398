"""`psclust.Run`: a handle on a run that this process has started.

The run is held by `psclust up --held`, a child of this process, since a process with threads
(TensorFlow, a notebook) must not fork. The child prints each status as a line of JSON, and ends the
run when its standard input closes, which the kernel does when this process dies.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from psclust.errors import NoRunError, PsclustError, StartError, UsageError
from psclust.rundir.folder import RunFolder
from psclust.rundir.status import RunStatus
from psclust.spec.cluster import Task
from psclust.spec.jobs import WORKER

_ERRORS = {error.exit_code: error for error in (PsclustError, UsageError, StartError)}
_live: weakref.WeakSet[Run] = weakref.WeakSet()


class Run:
    """Use it in a `with` block, or call `down`; otherwise it ends with this process. Made by
    `Cluster.up`."""

    def __init__(self, words: Sequence[str]) -> None:
        """words: arguments of `psclust up`."""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (for the life of the run)
        self._changed = threading.Condition()
        self._status: RunStatus | None = None
        self._is_up = self._is_over = False
        self._failure = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "psclust", "up", "--held", str(os.getpid()), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,  # Ctrl-C is for this process, which then ends the run
        )
        self._reader = threading.Thread(target=self._read, name="psclust-status", daemon=True)
        self._reader.start()
        _live.add(self)

    @property
    def status(self) -> RunStatus:
        """The newest status: `phase`, `tasks` with their `phase`, `address`, `attempt` and
        `exit_code`; once it has `ended`, `ok`, `exit_code` and `text` say how. Raises the error
        that kept the run from starting, or NoRunError before it began."""
        with self._changed:
            if self._status is not None:
                return self._status
        if not self._is_over:
            raise NoRunError("the run has not begun yet")
        raise self._error()

    @property
    def folder(self) -> Path:
        """Logs, events and, by default, the model of the run."""
        return Path(self.status.folder)

    @property
    def model_dir(self) -> Path:
        """Where a psclust program that was given no other folder leaves its checkpoints."""
        return RunFolder(self.folder).model

    @property
    def cluster_spec(self) -> dict[str, list[str]]:
        """job -> addresses, for `tf.train.ClusterSpec`."""
        spec: dict[str, list[str]] = {}
        for task in self.status.tasks:
            if task.address is not None:
                spec.setdefault(Task.parse(task.task).job, []).append(task.address)
        return spec

    @property
    def target(self) -> str:
        """The server for a session in this process, that of the first worker: `grpc://host:port`.
        Raises UsageError if there is none."""
        workers = self.cluster_spec.get(WORKER)
        if not workers:
            raise UsageError(
                f"{self.status.name} has no worker to run a session; "
                "give it one, for example workers=1"
            )
        return f"grpc://{workers[0]}"

    def wait_until_up(self, timeout_s: float | None = None) -> None:
        """Returns when every server accepts connections and every program runs, or the run has
        ended. Raises TimeoutError, and the error that kept the run from starting."""
        self._wait(lambda: self._is_up, timeout_s, "up")

    def wait(self, timeout_s: float | None = None, *, check: bool = False) -> RunStatus:
        """The last status, when the run has ended and none of its processes is alive. check: raise
        PsclustError if it failed. Raises TimeoutError if it does not end in time."""
        self._wait(lambda: False, timeout_s, "over")
        status = self.status
        if check and not status.ok:
            remedy = f"; {status.remedy}" if status.remedy else ""
            raise PsclustError(f"{status.name}: {status.text}{remedy}")
        return status

    def logs(self, task: str, attempt: int | None = None) -> str:
        """The output of a task such as "worker:0", of its last attempt or of that one. Raises
        UsageError for an unknown task."""
        found = next((entry for entry in self.status.tasks if entry.task == task), None)
        if found is None:
            raise UsageError(
                f"{task}: there is no such task; "
                f"there are {', '.join(entry.task for entry in self.status.tasks)}"
            )
        path = RunFolder(self.folder).log(Task.parse(task), attempt or found.attempt)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def down(self, *, now: bool = False) -> RunStatus | None:
        """Ends the run, as `psclust down` does, and returns when none of its processes is alive:
        its last status, None if it never began. now: without the time to end in good order."""
        self._say("now" if now else "stop")
        self._reader.join()
        self._process.wait()
        return self._status

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *details: object) -> None:
        self.down()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                if json.loads(line) == {"up": True}:
                    self._is_up = True
                else:
                    self._status = RunStatus.from_json(line.decode())
                self._changed.notify_all()
        self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").splitlines()
        own = [line.removeprefix("psclust: ") for line in lines if line.startswith("psclust: ")]
        for stream in (self._said, self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()
        with self._changed:
            self._failure = "\n".join(own or lines)
            self._is_over = True
            self._changed.notify_all()

    def _wait(self, is_reached: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        """Until that, or the end of the run."""
        with self._changed:
            if not self._changed.wait_for(lambda: is_reached() or self._is_over, timeout_s):
                raise TimeoutError(f"the run is not {what} after {timeout_s:g} s")
        if self._status is None:
            raise self._error()

    def _error(self) -> PsclustError:
        """Why it did not begin."""
        return _ERRORS.get(self._process.returncode, PsclustError)(
            self._failure or "psclust up ended without a word"
        )


@atexit.register
def _end_all() -> None:
    """Nothing outlives the interpreter, not even by the moment that the kernel would take."""
    for run in list(_live):
        run.down()
