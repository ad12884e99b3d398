"""Between a log-in and the standing agent of the same user: one process hands over what it was to do, with its standard input, output and
error, and waits for the exit code. Two versions of psclust may meet here, so that it stays as it is, or else gets another number."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from psclust import framing

_NUMBER = 1  # of the way in which the two talk; those of different numbers do not meet
_ANSWER_S = 5.0
_LOST = 3  # exit code where the standing agent has ended before the command has


@dataclass(frozen=True, slots=True)
class DelegatedCommand(AbstractContextManager["DelegatedCommand"]):
    """A command as it stands, and three open files, closed on leaving."""

    argv: list[str]
    cwd: str
    environ: Mapping[str, str]
    files: list[int]

    def __exit__(self, *details: object) -> None:
        for file in self.files:
            os.close(file)


def socket_path(environ: Mapping[str, str]) -> Path:
    """Where a user's standing agent listens, in a folder that nobody else can look into."""
    given = environ.get("XDG_RUNTIME_DIR", "")
    folder = given if os.path.isabs(given) else f"/run/user/{os.getuid()}"
    return Path(folder) / "psclust" / f"agent-{_NUMBER}.sock"


def delegate(arguments: list[str]) -> int | None:
    """Has the standing agent run this Python with `arguments`, and waits for its end; its exit code. None where nobody has taken it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, connection.makefile("rb") as answers:
        connection.settimeout(_ANSWER_S)
        with suppress(OSError, ValueError):
            connection.connect(str(socket_path(os.environ)))
            # Who listens but does not answer is given nothing: files that nobody takes out of a socket stay open.
            if peer_uid(connection) == os.getuid() and answers.readline() and _is_taken(connection, answers, [sys.executable, *arguments]):
                connection.settimeout(None)
                return _exit_code(answers)
    return None


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end, as the kernel has it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def say(connection: socket.socket, message: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket) -> DelegatedCommand:
    """Raises OSError or ValueError for anything that is no command with three files."""
    payload, files = framing.receive(connection, max_files=3)
    with ExitStack() as undo:
        for file in files:
            undo.callback(os.close, file)
        message = json.loads(payload)
        try:
            command = DelegatedCommand(list(message["argv"]), str(message["cwd"]), dict(message["environ"]), files)
        except (KeyError, TypeError) as error:
            raise ValueError(f"no command: {error}") from None
        if len(files) != 3:
            raise ValueError("no command with three files")
        undo.pop_all()
    return command


def _is_taken(connection: socket.socket, answers: BinaryIO, argv: list[str]) -> bool:
    payload = json.dumps({"argv": argv, "cwd": os.getcwd(), "environ": dict(os.environ)}).encode()
    framing.send(connection, payload, [0, 1, 2])
    return "pid" in json.loads(answers.readline())


def _exit_code(answers: BinaryIO) -> int:
    try:
        code = int(json.loads(answers.readline())["code"])
    except (OSError, ValueError, KeyError):
        sys.stderr.write("the standing agent of this host has ended in the middle of a start\n")
        return _LOST
    return code if code >= 0 else 128 - code
