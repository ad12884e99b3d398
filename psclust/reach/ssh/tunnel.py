"""A port of this machine that leads to an address as seen from a host, and outlives the SSH
connection: if that is lost, the next client of the port opens a new one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psclust.errors import PsclustError
from psclust.reach.ssh.port_forward import Forward
from psclust.reach.ssh.ssh_hosts import SshHosts
from psclust.spec.cluster import Host

# TCP retries after ever longer pauses: after a cut, a new connection is up sooner than the old one
# resumes.
_LOST_AFTER_S = 3.0


class SshTunnel:
    """To `target` (host, port), as seen from `host`. `home`: see SshHosts."""

    def __init__(self, host: Host, target: tuple[str, int], home: Path | None = None) -> None:
        self._host = host
        self._make: Callable[[], SshHosts] = lambda: SshHosts(
            [host], home=home, lost_after_s=_LOST_AFTER_S
        )
        self._lock = threading.Lock()
        self._ssh: SshHosts | None = None
        self._forward = Forward(self, target)

    @property
    def address(self) -> str:
        """`127.0.0.1:port`; the port stays the same."""
        return self._forward.address

    def close(self) -> None:
        self._forward.close()
        with self._lock:
            self._hang_up()

    def open_channel(self, *arguments: Any, **options: Any) -> Any:
        """As a paramiko transport, for Forward. Raises OSError if the host cannot be reached."""
        with self._lock:
            try:
                return self._transport().open_channel(*arguments, **options)
            except PsclustError as error:
                raise OSError(str(error)) from None

    def _transport(self) -> Any:
        if self._ssh is not None:
            try:
                return self._ssh.transport(self._host.name)
            except PsclustError:
                self._hang_up()
        self._ssh = self._make().__enter__()
        return self._ssh.transport(self._host.name)

    def _hang_up(self) -> None:
        if self._ssh is not None:
            self._ssh.__exit__()
            self._ssh = None
