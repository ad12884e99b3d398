"""Runs a command on a host to its end, whatever carries it there."""

from __future__ import annotations

import shlex
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from psclust.errors import HostError
from psclust.reach.connections import Connections
from psclust.reach.host_command import HostCommand
from psclust.rundir.log_tail import last_line

_SHOWN = 60  # characters of a command in a message
# What carries a command ends only the command's input when the caller is gone: a watcher on that
# input ends the command.
_LEASH = (
    "exec 3<&0 </dev/null; { read -r _ <&3; kill -TERM 0; } >/dev/null 2>&1 & watch=$!; exec 3<&-; "
    '"${SHELL:-/bin/sh}" -c "$1"; code=$?; kill "$watch"; exit "$code"'
)


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended. `code`: its exit code, as its shell gave it; -1: a signal ended the
    shell itself."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", errors="replace")

    @property
    def last_line(self) -> str:
        """The last line of its output; of its errors, where there is no output."""
        return last_line(self.text) or last_line(self.stderr.decode("utf-8", errors="replace"))


def run(
    connections: Connections,
    host: str,
    command: str,
    *,
    stdin: bytes | None = None,
    timeout_s: float | None = None,
) -> Result:
    """Run a line of the user's shell on `host` to its end; any exit code is a result. Without
    `stdin` the command, and all it started, is ended if this call ends first. Secrets go into
    `stdin`: every user of the host can read `command`. Raises HostError when the connection is lost
    or `timeout_s` has passed."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    shown = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}..."
    line = _leash(command) if stdin is None else command
    with connections.start(host, line, f"`{shown}` ran there") as process:
        if stdin is not None:
            threading.Thread(
                target=_feed, args=(process, stdin), name=f"input-{host}", daemon=True
            ).start()
        try:
            output = b"".join(iter(lambda: process.read_line(deadline), b""))
            return Result(process.wait(deadline), output, process.stderr)
        except HostError:
            if deadline is None or time.monotonic() < deadline:
                raise
            raise HostError(f"{host}: `{shown}` did not end in time.") from None


def _leash(command: str) -> str:
    """A line of the shell that runs `command` without input and, when its own input ends, ends it
    with all that it started."""
    return "exec " + shlex.join(["sh", "-c", _LEASH, "sh", command])


def _feed(process: HostCommand, stdin: bytes) -> None:
    with suppress(HostError):  # it ended without reading all of it, which is no failure
        process.write(stdin)
        process.close_stdin()
