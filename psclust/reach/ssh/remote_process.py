"""A command on a host, over an open SSH connection: no terminal, bytes in, bytes out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from paramiko.ssh_exception import SSHException

from psclust.errors import HostError
from psclust.reach.connections import Input, Result
from psclust.reach.ssh.channel import end_input

_CHUNK = 1 << 16
_GONE = (OSError, SSHException, EOFError)  # raised by paramiko when the other end is gone
_TAIL = 1 << 20  # of stderr that is kept
_SHOWN = 60  # characters of a command in a message


class RemoteProcess:
    """A running command (`HostProcess`). Leaving the context closes its input and output, which
    ends what reads or writes them. Raises HostError when the connection is lost. purpose: a clause
    that says what the command does, where its text means nothing to a user."""

    def __init__(
        self,
        host: str,
        command: str,
        transport: Any,
        open_timeout_s: float,
        purpose: str | None = None,
    ) -> None:
        self._host = host
        self._shown = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}..."
        self._purpose = purpose
        self._transport = transport
        self._buffer = bytearray()
        self._stderr = bytearray()
        try:
            self._channel = transport.open_session(timeout=open_timeout_s)
            self._channel.exec_command(command)
        except _GONE as error:
            raise self._not_started(error) from None
        self._reader = threading.Thread(
            target=self._read_stderr, name=f"ssh-stderr-{host}", daemon=True
        )
        self._reader.start()

    def __enter__(self) -> RemoteProcess:
        return self

    def __exit__(self, *details: object) -> None:
        with suppress(*_GONE):
            self._channel.close()

    @property
    def stderr(self) -> bytes:
        return bytes(self._stderr)

    def write(self, data: bytes) -> None:
        self._channel.settimeout(None)
        try:
            for piece in _pieces(data):
                self._channel.sendall(piece)
        except _GONE as error:
            if self._connection_is_lost():
                raise self._lost() from None
            shown = "a Python there" if self._purpose else f"`{self._shown}`"
            raise HostError(
                f"{self._host}: {shown} ended before it had read its input ({error})."
            ) from None

    def close_stdin(self) -> None:
        with suppress(*_GONE):
            end_input(self._channel)

    def read_line(self, deadline: float | None) -> bytes:
        """See `HostProcess.read_line`."""
        while b"\n" not in self._buffer:
            data = self._receive(deadline)
            if not data:
                line, self._buffer = bytes(self._buffer), bytearray()
                return line
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line + b"\n"

    def communicate(
        self, stdin: Input, deadline: float | None, *, keep_open: bool = False
    ) -> Result:
        """Write `stdin` and close it, unless it is to stay open; read all output and wait for the
        end."""
        if not keep_open:
            threading.Thread(
                target=self._feed, args=(stdin,), name=f"ssh-stdin-{self._host}", daemon=True
            ).start()
        output = bytearray(self._buffer)
        while data := self._receive(deadline):
            output += data
        return Result(self.wait(deadline), bytes(output), self.stderr)

    def wait(self, deadline: float | None) -> int:
        if not self._channel.status_event.wait(_left(deadline)):
            raise self._late()
        self._reader.join(_left(deadline))
        code = int(self._channel.exit_status)
        if code == -1 and self._connection_is_lost():
            raise self._lost()
        return code

    def _receive(self, deadline: float | None) -> bytes:
        self._channel.settimeout(_left(deadline))
        try:
            return bytes(self._channel.recv(_CHUNK))
        except TimeoutError:
            raise self._late() from None

    def _feed(self, stdin: Input) -> None:
        try:
            for piece in _pieces(stdin):
                self._channel.sendall(piece)
        except _GONE:
            return  # it ended without reading all its input, which is no failure
        self.close_stdin()

    def _read_stderr(self) -> None:
        while data := self._channel.recv_stderr(_CHUNK):
            self._stderr += data
            del self._stderr[:-_TAIL]

    def _connection_is_lost(self) -> bool:
        return not self._transport.is_active()

    def _not_started(self, error: Exception) -> HostError:
        if self._purpose:
            cause = str(error).rstrip(".") or "the connection is lost"
            return HostError(
                f"{self._host}: no SSH session could be opened ({cause}). Is the host still there?"
            )
        return HostError(
            f"{self._host}: "
            f"`{self._shown}` could not be started ({error or 'the SSH connection is lost'})."
        )

    def _lost(self) -> HostError:
        if self._purpose:
            return HostError(
                f"{self._host}: the SSH connection was lost while {self._purpose}. "
                "Is the host still there?"
            )
        return HostError(f"{self._host}: the SSH connection was lost while `{self._shown}` ran.")

    def _late(self) -> HostError:
        if self._purpose:
            return HostError(
                f"{self._host}: no answer in time while {self._purpose}. "
                "Is the host still there, or is it very busy?"
            )
        return HostError(f"{self._host}: `{self._shown}` did not end in time.")


def _pieces(stdin: Input) -> Iterator[bytes]:
    """Small pieces: paramiko copies the rest of a piece for each packet it sends."""
    for data in (stdin,) if isinstance(stdin, bytes) else stdin or ():
        view = memoryview(data)
        for start in range(0, len(view), _CHUNK):
            yield bytes(view[start : start + _CHUNK])


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.001, deadline - time.monotonic())
