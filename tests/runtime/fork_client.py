"""The supervisor's side of a fork server, as small as the protocol allows."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psclust
from psclust import framing

PROGRAM = Path(psclust.__file__).parent / "runtime" / "fork_server.py"
PR_SET_CHILD_SUBREAPER = 36


@contextmanager
def subreaper() -> Iterator[None]:
    """Make this process the parent of orphans below it, as the supervisor is."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@dataclass
class Task:
    """A started task and the read end of its output."""

    pid: int
    output: int

    def end(self) -> tuple[int, str]:
        """Wait for it; its exit code, negative for a signal, and all it has printed."""
        with open(self.output, "rb") as pipe:
            text = pipe.read().decode(errors="replace")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), text

    def read(self, count: int) -> str:
        """The next `count` characters it prints."""
        text = b""
        while len(text) < count and (part := os.read(self.output, count - len(text))):
            text += part
        return text.decode()

    def kill(self, number: int) -> tuple[int, str]:
        os.kill(self.pid, number)
        return self.end()


class ForkServer:
    """A real fork server, and requests to it."""

    def __init__(
        self,
        preload: str,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.socket, theirs = socket.socketpair()
        self.environment = dict(os.environ if env is None else env)
        argv = [python, *options, str(PROGRAM), "--preload", preload]
        argv += ["--socket", str(theirs.fileno())]
        with theirs:
            self.process = subprocess.Popen(
                argv,
                env=self.environment,
                pass_fds=[theirs.fileno()],
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.first_message = self.receive()

    def start(self, argv: Sequence[str], **request: Any) -> Task:
        told, tell = os.pipe()
        reply = self.ask(request_for(self, argv, **request), tell)
        os.close(tell)
        return Task(reply["pid"], told)

    def run(self, argv: Sequence[str], **request: Any) -> tuple[int, str]:
        return self.start(argv, **request).end()

    def ask(self, request: Mapping[str, Any], output: int | None) -> dict[str, Any]:
        framing.send(self.socket, json.dumps(request).encode(), [] if output is None else [output])
        return self.receive()

    def receive(self) -> dict[str, Any]:
        return json.loads(framing.receive(self.socket)[0])

    def close(self) -> int:
        self.socket.close()
        return self.process.wait(300)


def request_for(
    server: ForkServer,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str = "/",
    wait: float | None = None,
    changed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The request to run `argv`; `env` is added to the fork server's own environment; changed:
    other fields."""
    return {
        "argv": list(argv),
        "env": {**server.environment, **(env or {})},
        "cwd": str(cwd),
        "supervisor": os.getpid(),
        "recovery_wait_s": wait,
        **(changed or {}),
    }
