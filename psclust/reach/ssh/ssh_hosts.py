"""Connections to hosts by SSH: one log-in to each host, which carries all its commands."""

from __future__ import annotations

import ipaddress
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from psclust.errors import HostError, PsclustError, StartError
from psclust.reach.connections import Progress
from psclust.reach.fan_out import fan_out
from psclust.reach.ssh.log_in import LOST_AFTER_S, Dialer
from psclust.reach.ssh.remote_process import RemoteProcess
from psclust.spec.cluster import Host

# sshd drops log-ins from the eleventh unfinished one on (MaxStartups), and all hosts behind a jump
# host share its sshd.
PARALLEL = 8
DEADLINE_S = 60.0  # for all log-ins together
_OPEN_TIMEOUT_S = 30.0


class SshHosts(AbstractContextManager["SshHosts"]):
    """`Connections` by SSH. Entering logs in to all hosts, `parallel` at once. Hosts that are not
    reached within `deadline_s` raise one StartError with a line for each; with `partial` the lines
    go into `failures`. Configuration, known hosts and keys are read from `home`/.ssh (default:
    $HOME). `lost_after_s`: a connection that is silent for so long, or an attempt at one, counts as
    lost."""

    def __init__(
        self,
        hosts: Sequence[Host],
        *,
        parallel: int = PARALLEL,
        deadline_s: float = DEADLINE_S,
        home: Path | None = None,
        progress: Progress | None = None,
        partial: bool = False,
        lost_after_s: float = LOST_AFTER_S,
    ) -> None:
        self.way = "SSH"
        self.failures: dict[str, str] = {}
        self.hosts = tuple(hosts)
        self._hosts = {host.name: host for host in hosts}
        self._parallel = parallel
        self._deadline_s = deadline_s
        self._home = home or Path(os.environ.get("HOME") or "~").expanduser()
        self._progress = progress
        self._partial = partial
        self._lost_after_s = lost_after_s
        self._dialer: Dialer | None = None
        self._connections: dict[str, tuple[Any, str | None]] = {}

    def __enter__(self) -> SshHosts:
        end = time.monotonic() + self._deadline_s
        self._dialer = Dialer(self._home, end, self._lost_after_s)
        with ExitStack() as undo:
            undo.push(self)
            self._log_in(self._dialer, end)
            undo.pop_all()
        return self

    def __exit__(self, *details: object) -> None:
        if self._dialer is not None:
            self._dialer.close()

    @property
    def names(self) -> tuple[str, ...]:
        """See `Connections.names`."""
        return tuple(name for name in self._hosts if name in self._connections)

    def start(
        self, host: str, command: str, purpose: str, *, outlived: bool = False
    ) -> RemoteProcess:
        """See `Connections.start`."""
        return RemoteProcess(host, command, self.transport(host), _OPEN_TIMEOUT_S, purpose)

    def address_of(self, host: str) -> str | None:
        """See `Connections.address_of`; None behind a jump host or a ProxyCommand, and over
        IPv6."""
        address = self._connections[host][1]
        return (
            address if address is not None and ipaddress.ip_address(address).version == 4 else None
        )

    def _log_in(self, dialer: Dialer, end: float) -> None:
        outcomes = fan_out(
            list(self._hosts),
            lambda name: dialer.dial(self._hosts[name]),
            parallel=self._parallel,
            deadline=end + 1,
        )
        for count, (name, outcome) in enumerate(outcomes, 1):
            if isinstance(outcome, PsclustError):
                self.failures[name] = (
                    str(outcome) if str(outcome).startswith(f"{name}: ") else f"{name}: {outcome}"
                )
            else:
                self._connections[name] = outcome
            if self._progress is not None:
                self._progress(count, len(self._hosts), name)
        if self.failures and not self._partial:
            raise StartError(
                "\n".join(self.failures[name] for name in self._hosts if name in self.failures)
            )

    def transport(self, host: str) -> Any:
        """paramiko's transport. Raises HostError when the connection is lost."""
        transport = self._connections[host][0].transport
        if not transport.is_active():
            raise HostError(f"{host}: the SSH connection is lost.")
        return transport
