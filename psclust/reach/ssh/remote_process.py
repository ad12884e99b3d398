"""A command on a host, over an open SSH connection: no terminal, bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from paramiko.ssh_exception import SSHException

from psclust.errors import HostError
from psclust.reach.host_command import HostCommand

CHUNK = 1 << 16
GONE = (OSError, SSHException, EOFError)  # raised by paramiko when the other end is gone


class RemoteProcess(HostCommand):
    """A running command. Leaving the context closes its input and output, which
    ends what reads or writes them. Raises HostError when the connection is lost."""

    LOST = "the SSH connection was lost"

    def __init__(
        self, host: str, command: str, transport: Any, open_timeout_s: float, purpose: str
    ) -> None:
        super().__init__(host, purpose)
        self._transport = transport
        try:
            self._channel = transport.open_session(timeout=open_timeout_s)
            self._channel.exec_command(command)
        except GONE as error:
            cause = str(error).rstrip(".") or "the connection is lost"
            raise HostError(
                f"{host}: no SSH session could be opened ({cause}). Is the host still there?"
            ) from None
        self._errors = self._take_errors(iter(lambda: self._channel.recv_stderr(CHUNK), b""))
        self._take_in()

    def __exit__(self, *details: object) -> None:
        with suppress(*GONE):
            self._channel.close()

    def write(self, data: bytes) -> None:
        try:
            # Small pieces: paramiko copies the rest of a piece for each packet it sends.
            for start in range(0, len(data), CHUNK):
                self._channel.sendall(data[start : start + CHUNK])
        except GONE as error:
            if not self._transport.is_active():
                raise self._lost() from None
            raise HostError(
                f"{self._host}: the command ended while {self._purpose} ({error})."
            ) from None

    def close_stdin(self) -> None:
        with suppress(*GONE):
            end_input(self._channel)

    def _output(self) -> Iterator[bytes]:
        while data := self._channel.recv(CHUNK):
            yield data
        self._channel.status_event.wait()
        self._errors.join()

    def _exit_code(self) -> int:
        code = int(self._channel.exit_status)
        if code == -1 and not self._transport.is_active():
            raise self._lost()
        return code


def end_input(channel: Any) -> None:
    """As `channel.shutdown_write()`, but holding the lock until the message is sent. Otherwise the
    transport's thread may close the channel in between, and sshd drops the whole connection for a
    message on a closed channel. Raises OSError, SSHException or EOFError when the connection is
    lost."""
    with channel.lock:
        message = channel._send_eof()
        if message is not None:
            channel.transport._send_user_message(message)
