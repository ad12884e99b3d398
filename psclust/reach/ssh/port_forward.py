"""A port of this machine that leads to an address as seen from a host, through an SSH
connection."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

from paramiko.ssh_exception import SSHException

from psclust.reach.carried_tunnel import CarriedTunnel
from psclust.reach.ssh.channel import end_input

_CHUNK = 1 << 16
_GONE = (OSError, EOFError, SSHException)


class Forward(CarriedTunnel):
    """The other end of `transport` connects each client to `target` (host, port); if it cannot, the
    client's connection is closed. After `close`, open connections end with the SSH connection."""

    def __init__(self, transport: Any, target: tuple[str, int]) -> None:
        self._transport = transport
        self._target = target
        super().__init__(self._carry_by_channel)

    def _carry_by_channel(self, client: socket.socket) -> None:
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = self._transport.open_channel(
                "direct-tcpip", self._target, client.getpeername(), timeout=20
            )
        except _GONE:
            return
        back = threading.Thread(
            target=_copy, args=(channel, client), name="tunnel-back", daemon=True
        )
        back.start()
        _copy(client, channel)
        back.join()
        with suppress(*_GONE):
            channel.close()


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
