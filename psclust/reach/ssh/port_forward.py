"""A port of this machine that leads to an address as seen from a host, through an SSH
connection."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

from paramiko.ssh_exception import SSHException

from psclust.reach.ssh.channel import end_input

_CHUNK = 1 << 16
_GONE = (OSError, EOFError, SSHException)


class Forward:
    """Listens on 127.0.0.1, on a port the kernel chooses, until `close`. The other end of
    `transport` connects each client to `target` (host, port); if it cannot, the client's connection
    is closed."""

    def __init__(self, transport: Any, target: tuple[str, int]) -> None:
        self._transport = transport
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(
            target=self._accept, name=f"forward-{target[0]}:{target[1]}", daemon=True
        ).start()

    @property
    def address(self) -> str:
        """`127.0.0.1:port`."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Accept no more clients; open connections end with the SSH connection."""
        with suppress(OSError):
            self._listener.shutdown(
                socket.SHUT_RDWR
            )  # closing alone does not wake the thread that accepts
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                ours, origin = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._join, args=(ours, origin), name="forward", daemon=True
            ).start()

    def _join(self, ours: socket.socket, origin: tuple[str, int]) -> None:
        try:
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = self._transport.open_channel("direct-tcpip", self._target, origin, timeout=20)
        except _GONE:
            ours.close()
            return
        back = threading.Thread(
            target=_copy, args=(channel, ours), name="forward-back", daemon=True
        )
        back.start()
        _copy(ours, channel)
        back.join()
        with suppress(*_GONE):
            channel.close()
        ours.close()


def _copy(source: Any, sink: Any) -> None:
    """Until `source` ends; then ends the input of `sink`."""
    with suppress(*_GONE):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    with suppress(*_GONE):
        if isinstance(sink, socket.socket):
            sink.shutdown(socket.SHUT_WR)
        else:
            end_input(sink)
