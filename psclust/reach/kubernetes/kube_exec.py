"""A command in a pod: `kubectl exec`, over a websocket that carries its standard input, output and
error."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

from websocket import ABNF, WebSocketException

from psclust.reach.host_command import HostCommand

_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = b"\0", 1, 2, 3, 255  # the first byte of each message
_CHUNK = 1 << 15
_TAIL = 1 << 20  # of stderr that is kept
_FAILED = (OSError, WebSocketException)


class ExecStream:
    """The bytes of a running command; one thread may send while another one receives. `client`: of
    `KubeApi.exec`.

    Who receives also closes the socket: otherwise its number may become that of a new connection,
    whose bytes it would take."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._socket: socket.socket = client.sock.sock
        self._sending = threading.Lock()
        self.code: int | None = None
        """The exit code, once the command has ended."""
        self.stderr = bytearray()

    def send(self, data: bytes) -> None:
        """To standard input. Raises ConnectionError when the command has ended or the connection is
        lost."""
        for start in range(0, len(data), _CHUNK):
            try:
                with self._sending:
                    self._client.sock.send(
                        _STDIN + data[start : start + _CHUNK], ABNF.OPCODE_BINARY
                    )
            except _FAILED as error:
                raise ConnectionError(str(error)) from None

    def end_input(self) -> None:
        """Where the server knows no end of the input (before Kubernetes 1.30), the end of the
        connection is one."""
        with suppress(*_FAILED), self._sending:
            self._client.close_channel(0)

    def output(self) -> Generator[bytes, None, None]:
        """Until the command has ended or the connection is lost, and then `code` is None. Closes
        the connection."""
        try:
            with suppress(*_FAILED):
                yield from self._received()
        finally:
            self.close()
            with suppress(*_FAILED), self._sending:
                self._client.sock.shutdown()

    def _received(self) -> Iterator[bytes]:
        while True:
            kind, frame = self._client.sock.recv_data_frame(True)
            if kind == ABNF.OPCODE_CLOSE:
                return
            if kind not in (ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT) or len(frame.data) < 2:
                continue
            channel, data = frame.data[0], bytes(frame.data[1:])
            if channel == _STDOUT:
                yield data
            elif channel == _STDERR:
                self.stderr += data
                del self.stderr[:-_TAIL]
            elif channel == _STATUS:
                self.code = _exit_code(data)

    def close(self) -> None:
        """End the connection, without the farewell of websockets: a server that is gone would have
        us wait for it."""
        with suppress(OSError):
            socket.socket.shutdown(
                self._socket, socket.SHUT_RDWR
            )  # not that of TLS, which says farewell, too


class PodCommand(HostCommand):
    """A running command. Leaving the context ends its input, and the connection."""

    PLACE, LOST = "pod", "the connection through Kubernetes ended"

    def __init__(self, host: str, stream: ExecStream, purpose: str) -> None:
        super().__init__(host, purpose)
        self._stream, self._stderr = stream, stream.stderr
        self._take_in()

    def __exit__(self, *details: object) -> None:
        self.close_stdin()
        self._stream.close()

    def write(self, data: bytes) -> None:
        try:
            self._stream.send(data)
        except ConnectionError:
            raise self._lost() from None

    def close_stdin(self) -> None:
        self._stream.end_input()

    def _output(self) -> Iterator[bytes]:
        return self._stream.output()

    def _exit_code(self) -> int:
        if self._stream.code is None:
            raise self._lost()
        return self._stream.code


def _exit_code(status: bytes) -> int:
    """Of the `Status` that Kubernetes sends at the end of a command."""
    found = json.loads(status)
    if found.get("status") == "Success":
        return 0
    causes = found.get("details", {}).get("causes", ())
    codes = [cause.get("message", "") for cause in causes if cause.get("reason") == "ExitCode"]
    return int(codes[0]) if codes and codes[0].isdigit() else 1
