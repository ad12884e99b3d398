"""A port of this machine that leads to an address as seen from a host, and outlives the SSH
connection: if that is lost, the next client of the port opens a new one."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from psclust.errors import PsclustError
from psclust.reach.carried_tunnel import CarriedTunnel
from psclust.reach.ssh.remote_process import CHUNK, GONE, end_input
from psclust.reach.ssh.ssh_hosts import SshHosts
from psclust.spec.cluster import Host

# TCP retries after ever longer pauses: after a cut, a new connection is up sooner than the old one
# resumes.
_LOST_AFTER_S = 3.0
_OPEN_S = 20.0  # for the other end to connect to the target


class SshTunnel(CarriedTunnel):
    """To `target` (host, port), as seen from `host`; if it cannot be reached, the client's
    connection is closed. `home`: see SshHosts. After `close`, open connections end with the SSH
    connection."""

    def __init__(self, host: Host, target: tuple[str, int], home: Path | None = None) -> None:
        self._host, self._target, self._home = host, target, home
        self._lock = threading.Lock()  # guards what follows
        self._ssh: SshHosts | None = None
        super().__init__()

    def close(self) -> None:
        super().close()
        with self._lock:
            self._hang_up()

    def _carry(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with self._lock:
                channel = self._transport().open_channel(
                    "direct-tcpip", self._target, client.getpeername(), timeout=_OPEN_S
                )
        except (*GONE, PsclustError):
            return
        back = threading.Thread(
            target=_copy, args=(channel, client), name="tunnel-back", daemon=True
        )
        back.start()
        _copy(client, channel)
        back.join()
        with suppress(*GONE):
            channel.close()

    def _transport(self) -> Any:
        """paramiko's. Raises PsclustError if the host cannot be reached."""
        if self._ssh is not None:
            try:
                return self._ssh.transport(self._host.name)
            except PsclustError:
                self._hang_up()
        ssh = SshHosts([self._host], home=self._home, lost_after_s=_LOST_AFTER_S)
        self._ssh = ssh.__enter__()
        return self._ssh.transport(self._host.name)

    def _hang_up(self) -> None:
        if self._ssh is not None:
            self._ssh.__exit__()
            self._ssh = None


def _copy(source: Any, sink: Any) -> None:
    """Until `source` ends; then ends the input of `sink`."""
    with suppress(*GONE):
        while data := source.recv(CHUNK):
            sink.sendall(data)
    with suppress(*GONE):
        if isinstance(sink, socket.socket):
            sink.shutdown(socket.SHUT_WR)
        else:
            end_input(sink)
