"""The launcher's end of a fork server, a process that has TensorFlow's library or Python package in
memory and forks a task per request.

The other end is `psclust/runtime/fork_server.py`, whose docstring defines the messages; the two
share nothing but the socket.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import psclust
from psclust import framing
from psclust.spec.preload_limits import Preload
from psclust.transport.open_files import explain_shortage

Load = Preload | Literal["nothing"]
_LOADED = {
    "library": "TensorFlow's library",
    "tensorflow": "TensorFlow",
    "psclust": "TensorFlow",
    "keras": "TensorFlow and Keras",
    "nothing": "anything",
}
_REMEDY_KILLED = "Perhaps the memory was used up, or a limit of it (ulimit -v)."
_REMEDY_EXITED = "Name a Python from 3.10 on that has TensorFlow (`python:`, --python)."
_EXIT_S = 5.0  # for the exit code of a process whose socket has closed
_LINES = 10
_PROGRAM = Path(psclust.__file__).parent / "runtime" / "fork_server.py"


@dataclass(frozen=True, slots=True)
class StartFailure:
    """reason: a sentence. retry: the fork server was killed, and nothing seems wrong with its
    interpreter; another one may do better."""

    reason: str
    retry: bool = False


Done = Callable[[int | StartFailure], None]
_Start = tuple[Mapping[str, object], int, Done]


class ForkServer:
    """One fork server process. A thread passes requests to it, in order, so that callers do not
    wait until it has loaded.

    output: a file descriptor for what it prints. last_output: waits until nothing can print any
    more, and returns the last bytes of that. open_files: soft and hard limit for it and its
    tasks."""

    def __init__(
        self,
        python: str,
        load: Load,
        env: Mapping[str, str],
        output: int,
        last_output: Callable[[], bytes],
        open_files: tuple[int, int],
    ) -> None:
        self._python, self._load, self._last_output = python, load, last_output
        # `_failure`: of every start from now on.
        self._socket, self.pid, self._failure = _spawn(python, load, env, output)
        self._requests: queue.SimpleQueue[_Start | None] = queue.SimpleQueue()
        self._ready = False
        self._exit_code: int | None = None
        self._ended = threading.Event()
        if self.pid is not None:
            with suppress(
                ProcessLookupError
            ):  # it has ended already, as the first request will find
                resource.prlimit(self.pid, resource.RLIMIT_NOFILE, open_files)
        threading.Thread(target=self._serve, name=f"fork-server-{load}", daemon=True).start()

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def note_end(self, pid: int, code: int) -> None:
        """Take note that a child of this process ended, if it was this fork server. code: as Python
        gives it, negative for a signal."""
        if pid == self.pid:
            self._exit_code = code
            self._ended.set()

    def start(self, message: Mapping[str, object], output: int, done: Done) -> None:
        """message: the request, in the words of the fork server. output: the write end of a pipe,
        which a thread of this object closes. done: called on that thread, with the pid or a
        failure."""
        self._requests.put((message, output, done))

    def close(self) -> None:
        """End the process, by closing its socket."""
        self._requests.put(None)

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            message, output, done = request
            answer = self._failure or self._ask(message, output)
            os.close(output)
            done(answer)
        self._socket.close()

    def _ask(self, message: Mapping[str, object], output: int) -> int | StartFailure:
        try:
            if not self._ready:
                error = self._receive().get("error")
                if error is not None:
                    self._failure = StartFailure(error)
                    return self._failure
                self._ready = True
            framing.send(self._socket, json.dumps(message).encode(), [output])
            reply = self._receive()
        except OSError:
            self._ended.wait(_EXIT_S)
            killed = self._ready or self._exit_code is None or self._exit_code < 0
            self._failure = StartFailure(self._describe_end(), retry=killed)
            return self._failure
        return StartFailure(reply["error"]) if "error" in reply else int(reply["pid"])

    def _describe_end(self) -> str:
        """How the process ended, and its last lines."""
        code = self._exit_code
        end = (
            "ended"
            if code is None
            else f"was killed by {signal.Signals(-code).name}"
            if code < 0
            else f"exited with code {code}"
        )
        if self._ready:
            return f"{self._python}: the process that starts tasks {end}"
        lines = [
            f"  {line}"
            for line in self._last_output().decode(errors="replace").splitlines()
            if line.strip()
        ][-_LINES:]
        text = f"{self._python} {end} before it had loaded {_LOADED[self._load]}"
        remedy = _REMEDY_EXITED if (code or 0) >= 0 else _REMEDY_KILLED
        return "\n".join(
            [f"{text}{', and printed:' if lines else ' and printed nothing.'}", *lines, remedy]
        )

    def _receive(self) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(framing.receive(self._socket)[0])
        return reply


def _spawn(
    python: str, load: Load, env: Mapping[str, str], output: int
) -> tuple[socket.socket, int | None, StartFailure | None]:
    """The socket to the process, and its pid or why it could not be made."""
    ours, theirs = socket.socketpair()
    options, known = _shortcuts(python, load)
    argv = [python, *options, str(_PROGRAM), "--preload", load, "--socket", str(theirs.fileno())]
    with theirs:
        try:
            process = subprocess.Popen(
                argv,
                env={**env, **known},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            return ours, None, StartFailure(_describe_popen_error(python, error))
    # The transport reaps all children; Popen must not wait for a pid that may have been reused.
    process.returncode = 0
    return ours, process.pid, None


def _describe_popen_error(python: str, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP):
        return f"{python}: {error.strerror}. Name an interpreter that exists (`python:`)."
    return f"{python}: {explain_shortage(OSError(error.errno, error.strerror))}"


def _shortcuts(python: str, load: Load) -> tuple[list[str], dict[str, str]]:
    """Interpreter options and variables that spare the fork server the search for its packages, if
    this process knows where they are."""
    if load not in ("library", "nothing") or python != sys.executable:
        return [], {}
    if load == "nothing":
        return ["-I", "-S"], {}
    found = find_spec("tensorflow")
    folders = found.submodule_search_locations if found else None
    return (["-I", "-S"], {"PSCLUST_TENSORFLOW": folders[0]}) if folders else ([], {})
