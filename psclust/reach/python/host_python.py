"""Talking with a Python on a host, or here, that runs psclust's own little modules (`on_host`): questions as JSON, answers as JSON, and
bytes behind a question where it needs some. Nothing of it is installed, and nothing but the interpreter is on its command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any, Literal, Protocol

from psclust.errors import HostError
from psclust.reach.python import on_host
from psclust.reach.python.local_process import LocalProcess
from psclust.reach.python.remote_command import BOOT, NO_PYTHON, remote_command
from psclust.reach.ssh.ssh_hosts import SshHosts

Module = Literal["facts", "store", "start_agent", "surroundings", "mesh"]

OLDEST_PYTHON = (3, 10)
_FOLDER = Path(on_host.__file__).parent
_MARK = b"\x01psclust "
_PURPOSE = "psclust looked at the host and prepared it"
_START = 30.0  # seconds for an interpreter to start, on a host with a slow disk


class Process(Protocol):
    """What a python runs in."""

    def write(self, data: bytes) -> None: ...

    def read_line(self, deadline: float | None) -> bytes: ...

    def close_stdin(self) -> None: ...

    def wait(self, deadline: float | None) -> int: ...

    @property
    def stderr(self) -> bytes: ...


class HostPython(AbstractContextManager["HostPython"]):
    """Modules that answer on a host; leaving it ends them. `version`, `executable`: of the Python there. Raises HostError, which names the
    host and says what to do, when there is no Python that psclust can use, and when it ends by itself."""

    def __init__(self, host: str, process: AbstractContextManager[Process], interpreters: Sequence[str]) -> None:
        self._host = host
        self._pythons = interpreters
        self._known: set[Module] = set()
        with ExitStack() as stack:
            self._process = stack.enter_context(process)
            source = (_FOLDER / "answer.py").read_bytes()
            # Who has ended before it was told anything, for example because there is no Python, says why in what follows.
            with suppress(HostError):
                self._process.write(b"%d\n%s" % (len(source), source))
            hello = self._reply(time.monotonic() + _START)
            self.version: tuple[int, int, int] = tuple(hello["version"])
            self.executable: str = hello["executable"]
            if self.version < OLDEST_PYTHON:
                raise HostError(
                    f"{host}: {self.executable} is Python {'.'.join(map(str, self.version))}; psclust needs "
                    f"{'.'.join(map(str, OLDEST_PYTHON))} or newer. Name another one under `python:`."
                )
            self._stack = stack.pop_all()

    def __exit__(self, *details: object) -> None:
        self._process.close_stdin()
        self._stack.close()

    def ask(self, module: Module, question: dict[str, Any], payload: Iterable[bytes] = (), *, timeout: float = 60.0) -> Any:
        """The module's answer, after `timeout` seconds at most from when it has been asked. Raises HostError with what went wrong there."""
        self.tell(module, question, payload)
        return self.answer(timeout)

    def tell(self, module: Module, question: dict[str, Any], payload: Iterable[bytes] = ()) -> None:
        """Ask, and leave the answer for later."""
        source = {} if module in self._known else {"source": (_FOLDER / f"{module}.py").read_text(encoding="utf-8")}
        self._known.add(module)
        self._process.write(json.dumps({"do": module, **source, **question}).encode() + b"\n")
        for data in payload:
            self._process.write(data)

    def answer(self, timeout: float) -> Any:
        reply = self._reply(time.monotonic() + timeout)
        if "error" in reply:
            raise HostError(f"{self._host}: {reply['error']}.")
        return reply["answer"]

    def _reply(self, deadline: float) -> dict[str, Any]:
        """Lines that are no reply are what somebody's shell says when it starts."""
        while line := self._process.read_line(deadline):
            if line.startswith(_MARK):
                reply: dict[str, Any] = json.loads(line.removeprefix(_MARK))
                return reply
        code = self._process.wait(deadline)
        if code == NO_PYTHON:
            tried = ", ".join(self._pythons)
            raise HostError(f"{self._host}: no Python there (tried {tried}). Install one, or name it under `python:` in the cluster file.")
        said = self._process.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise HostError(f"{self._host}: {self._pythons[0]} ended with {code}{f': {said}' if said else ''}.")


def start_python(ssh: SshHosts, host: str, interpreters: Sequence[str]) -> HostPython:
    """On a host, in the first of `interpreters` that is there."""
    return HostPython(host, ssh.start(host, remote_command(interpreters), _PURPOSE), interpreters)


def start_local_python(python: str) -> HostPython:
    """On this machine."""
    return HostPython("this machine", LocalProcess([python, "-c", BOOT]), [python])
