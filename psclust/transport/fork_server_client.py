"""The launcher's end of a fork server: a process that has loaded TensorFlow's library, or imported TensorFlow, and forks a task for each
request. It runs `psclust/runtime/fork_server.py` and meets it only at a socket."""

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
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import psclust
from psclust import framing
from psclust.transport.open_files import explain_shortage

Load = Literal["library", "tensorflow", "nothing"]
_WHAT = {"library": "TensorFlow's library", "tensorflow": "TensorFlow", "nothing": "anything"}
_SHORT = "Perhaps the memory was used up, or a limit of it (ulimit -v)."
_END_S = 5.0  # for a process whose socket has closed
_LINES = 10
_PROGRAM = Path(psclust.__file__).parent / "runtime" / "fork_server.py"


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What a fork server is told of a task. `output` is a pipe's write end; the fork server's thread closes it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    recovery_wait: float | None
    output: int
    done: Callable[[int | None, str], None]  # the pid, or None and a sentence


class ForkServer:
    """One fork server process. Requests are served in order by a thread, so that nobody waits for the loading. `output` is a pipe's write
    end, `said` waits for its end and answers the last bytes of it. open_files: soft and hard limit for it and its tasks."""

    def __init__(
        self, python: str, load: Load, env: Mapping[str, str], output: int, said: Callable[[], bytes], open_files: tuple[int, int]
    ) -> None:
        self._python, self._load, self._said = python, load, said
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._requests: queue.SimpleQueue[StartRequest | None] = queue.SimpleQueue()
        self._failure: str | None = None
        self._ready = False
        self._exit_code: int | None = None
        self._ended = threading.Event()
        self.killed = False  # though nothing is wrong with the interpreter, so that another one may do better
        self._process: subprocess.Popen[bytes] | None = None
        options, known = _shortcuts(python, load)
        argv = [python, *options, str(_PROGRAM), "--preload", load, "--socket", str(theirs.fileno())]
        with theirs:
            try:
                # Kept, and never polled: the transport reaps all children, and a forgotten Popen would wait for a pid it no longer owns.
                self._process = subprocess.Popen(
                    argv,
                    env={**env, **known},
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
                resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, open_files)
            except ProcessLookupError:
                pass  # dead already, which the first answer will tell
            except OSError as error:
                self._failure = _not_begun(python, error)
        threading.Thread(target=self._serve, name=f"fork-server-{load}", daemon=True).start()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def note_end(self, pid: int, code: int) -> None:
        """A process has ended, perhaps this one. Python's exit code: negative for a signal."""
        if pid == self.pid:
            self._exit_code = code
            self._ended.set()

    def start(self, request: StartRequest) -> None:
        self._requests.put(request)

    def close(self) -> None:
        """The process ends when its socket closes."""
        self._requests.put(None)

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            pid, reason = self._ask(request)
            os.close(request.output)
            request.done(pid, reason)
        self._socket.close()

    def _ask(self, request: StartRequest) -> tuple[int | None, str]:
        if self._failure is None:
            try:
                if not self._ready:
                    self._failure = self._receive().get("error")
                    self._ready = self._failure is None
                if self._failure is None:
                    self._send(request)
                    reply = self._receive()
                    return reply.get("pid"), reply.get("error", "")
            except OSError:
                self._ended.wait(_END_S)
                self.killed = self._ready or self._exit_code is None or self._exit_code < 0
                self._failure = self._why_ended()
        return None, self._failure or ""

    def _why_ended(self) -> str:
        """How the process ended, and its last lines."""
        code = self._exit_code
        end = "ended" if code is None else f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        if self._ready:
            return f"{self._python}: the process that starts tasks {end}"
        said = [f"  {line}" for line in self._said().decode(errors="replace").splitlines() if line.strip()][-_LINES:]
        cure = "Name a Python from 3.10 on that has TensorFlow (`python:`, --python)." if (code or 0) >= 0 else _SHORT
        text = f"{self._python} {end} before it had loaded {_WHAT[self._load]}"
        return "\n".join([f"{text}{', and printed:' if said else ' and printed nothing.'}", *said, cure])

    def _send(self, request: StartRequest) -> None:
        message = {
            "argv": request.argv,
            "env": dict(request.env),
            "cwd": request.cwd,
            "supervisor": os.getpid(),
            "recovery_wait": request.recovery_wait,
        }
        framing.send(self._socket, json.dumps(message).encode(), [request.output])

    def _receive(self) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(framing.receive(self._socket)[0])
        return reply


def _not_begun(python: str, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP):
        return f"{python}: {error.strerror}. Name an interpreter that exists (`python:`)."
    return f"{python}: {explain_shortage(OSError(error.errno, error.strerror))}"


def _shortcuts(python: str, load: Load) -> tuple[list[str], dict[str, str]]:
    """Interpreter options and variables that save the fork server the search for its packages, where this process knows the answer."""
    if load == "tensorflow" or python != sys.executable:
        return [], {}
    if load == "nothing":
        return ["-I", "-S"], {}
    found = find_spec("tensorflow")
    folders = found.submodule_search_locations if found else None
    return (["-I", "-S"], {"PSCLUST_TENSORFLOW": folders[0]}) if folders else ([], {})
