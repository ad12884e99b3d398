"""The protocol of the standing agent: a process sends it a command with its own standard input,
output and error, and waits for the exit code. Different psclust versions may talk over this socket:
bump _PROTOCOL when the protocol changes."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from psclust import framing

# Argument of an agent that the standing agent is not to start.
STAY_HERE = "--here"
_PROTOCOL = 1  # part of the socket's name
_REPLY_S = 5.0
_LOST = 3  # exit code if the standing agent ends before the command


@dataclass(frozen=True, slots=True)
class DelegatedCommand(AbstractContextManager["DelegatedCommand"]):
    """A command, and open files for its standard input, output and error; leaving the context
    closes them."""

    argv: list[str]
    cwd: str
    environ: Mapping[str, str]
    files: list[int]

    def __exit__(self, *details: object) -> None:
        for file in self.files:
            os.close(file)


def socket_path(environ: Mapping[str, str]) -> Path:
    """Where a user's standing agent listens, in a folder that only this user can read."""
    given = environ.get("XDG_RUNTIME_DIR", "")
    folder = given if os.path.isabs(given) else f"/run/user/{os.getuid()}"
    return Path(folder) / "psclust" / f"agent-{_PROTOCOL}.sock"


def delegate(arguments: list[str]) -> int | None:
    """Run this Python with `arguments` as a child of the standing agent; returns its exit code, or
    None if no standing agent takes it."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection,
        connection.makefile("rb") as replies,
    ):
        connection.settimeout(_REPLY_S)
        with suppress(OSError, ValueError):
            connection.connect(str(socket_path(os.environ)))
            # Wait for its greeting: files sent to a process that never receives them stay open.
            if (
                framing.peer_uid(connection) == os.getuid()
                and replies.readline()
                and _is_taken(connection, replies, [sys.executable, *arguments])
            ):
                connection.settimeout(None)
                return _exit_code(replies)
    return None


def reply(connection: socket.socket, message: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket) -> DelegatedCommand:
    """Raises OSError or ValueError for anything but a command with three files."""
    payload, files = framing.receive(connection, max_files=3)
    with ExitStack() as undo:
        for file in files:
            undo.callback(os.close, file)
        message = json.loads(payload)
        try:
            command = DelegatedCommand(
                list(message["argv"]), str(message["cwd"]), dict(message["environ"]), files
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a command: {error}") from None
        if len(files) != 3:
            raise ValueError(f"a command with {len(files)} files, not 3")
        undo.pop_all()
    return command


def _is_taken(connection: socket.socket, replies: BinaryIO, argv: list[str]) -> bool:
    payload = json.dumps({"argv": argv, "cwd": os.getcwd(), "environ": dict(os.environ)}).encode()
    framing.send(connection, payload, [0, 1, 2])
    return "pid" in json.loads(replies.readline())


def _exit_code(replies: BinaryIO) -> int:
    try:
        code = int(json.loads(replies.readline())["code"])
    except (OSError, ValueError, KeyError):
        sys.stderr.write("the standing agent of this host ended while it started an agent\n")
        return _LOST
    return code if code >= 0 else 128 - code
