"""A Python on a host, or here, that answers questions with the modules in `on_host`: JSON in, JSON
out, and raw bytes after a question that needs them. Nothing is installed for it, and its command
line shows only the interpreter."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any, Literal

from psclust.errors import HostError
from psclust.reach.connections import Connections
from psclust.reach.host_command import HostCommand
from psclust.reach.python import on_host
from psclust.reach.python.local_process import LocalProcess
from psclust.reach.python.on_host.answer import MARK
from psclust.reach.python.remote_command import BOOT, NO_PYTHON, remote_command
from psclust.rundir.log_tail import last_line

Module = Literal["facts", "store", "start_agent", "end_agent", "surroundings", "mesh"]

OLDEST_PYTHON = (3, 10)
_FOLDER = Path(on_host.__file__).parent
_PURPOSE = "psclust looked at the host and prepared it"
_START_S = 30.0  # for an interpreter to start, on a host with a slow disk


class HostPython(AbstractContextManager["HostPython"]):
    """Leaving the context ends the process. `version`, `executable`: of the interpreter there.
    Raises HostError, which names the host and says what to do, when there is no Python that psclust
    can use, and when the process ends by itself."""

    def __init__(
        self, host: str, process: AbstractContextManager[HostCommand], interpreters: Sequence[str]
    ) -> None:
        self._host = host
        self._interpreters = interpreters
        self._known: set[Module] = set()
        with ExitStack() as stack:
            self._process = stack.enter_context(process)
            source = (_FOLDER / "answer.py").read_bytes()
            # A process that ended before it read this (there is no Python, say) gives the reason in
            # its reply.
            with suppress(HostError):
                self._process.write(b"%d\n%s" % (len(source), source))
            hello = self._reply(time.monotonic() + _START_S)
            self.version: tuple[int, int, int] = tuple(hello["version"])
            self.executable: str = hello["executable"]
            if self.version < OLDEST_PYTHON:
                raise HostError(
                    f"{host}: {self.executable} is Python {'.'.join(map(str, self.version))}; "
                    f"psclust needs {'.'.join(map(str, OLDEST_PYTHON))} or newer. "
                    "Name another one under `python:`."
                )
            self._stack = stack.pop_all()

    def __exit__(self, *details: object) -> None:
        self._process.close_stdin()
        self._stack.close()

    def ask(
        self,
        module: Module,
        question: dict[str, Any],
        payload: Iterable[bytes] = (),
        *,
        timeout_s: float = 60.0,
    ) -> Any:
        """The module's answer, at most `timeout_s` after the question was sent. Raises HostError
        with the host's own error."""
        self.tell(module, question, payload)
        return self.answer(timeout_s)

    def tell(self, module: Module, question: dict[str, Any], payload: Iterable[bytes] = ()) -> None:
        """Ask; read the answer later with `answer`."""
        source = (
            {}
            if module in self._known
            else {"source": (_FOLDER / f"{module}.py").read_text(encoding="utf-8")}
        )
        self._known.add(module)
        self._process.write(json.dumps({"do": module, **source, **question}).encode() + b"\n")
        for data in payload:
            self._process.write(data)

    def answer(self, timeout_s: float) -> Any:
        reply = self._reply(time.monotonic() + timeout_s)
        if "error" in reply:
            raise HostError(f"{self._host}: {reply['error']}.")
        return reply["answer"]

    def _reply(self, deadline: float) -> dict[str, Any]:
        """Skips other lines, which login shells print when they start."""
        while line := self._process.read_line(deadline):
            if line.startswith(MARK):
                reply: dict[str, Any] = json.loads(line.removeprefix(MARK))
                return reply
        code = self._process.wait(deadline)
        if code == NO_PYTHON:
            tried = ", ".join(self._interpreters)
            raise HostError(
                f"{self._host}: no Python there (tried {tried}). "
                "Install one, or name it under `python:` in the cluster file."
            )
        error = last_line(self._process.stderr.decode("utf-8", "replace"))
        raise HostError(
            f"{self._host}: "
            f"{self._interpreters[0]} ended with {code}{f': {error}' if error else ''}."
        )


def start_python(connections: Connections, host: str, interpreters: Sequence[str]) -> HostPython:
    """On a host, with the first of `interpreters` that exists there."""
    command = connections.start(host, remote_command(interpreters), _PURPOSE, outlived=True)
    return HostPython(host, command, interpreters)


def start_local_python(python: str) -> HostPython:
    """On this machine."""
    return HostPython("this machine", LocalProcess([python, "-c", BOOT], _PURPOSE), [python])
