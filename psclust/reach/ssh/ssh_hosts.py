"""The hosts of a cluster by SSH: one log-in each, kept for as long as it is needed, and commands over it."""

from __future__ import annotations

import ipaddress
import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, TypeVar

from psclust.errors import HostError, PsclustError, StartError
from psclust.reach.fan_out import all_or_error, fan_out
from psclust.reach.ssh.log_in import LOST_AFTER, Dialer
from psclust.reach.ssh.port_forward import Forward
from psclust.reach.ssh.remote_process import Input, RemoteProcess, Result
from psclust.spec.cluster import Host

__all__ = ["Progress", "Result", "SshHosts"]

# sshd begins to drop log-ins at the eleventh that is not through yet (MaxStartups); behind one jump host all go to the same sshd.
PARALLEL = 8
DEADLINE = 60.0  # seconds for all log-ins together
_WORKERS = 32  # commands at once, over connections that are there
_OPEN_TIMEOUT = 30.0
# sshd leaves a command alone when the connection ends; the end of its input is what remains to be noticed.
_LEASH = (
    "exec 3<&0 </dev/null; { read -r _ <&3; kill -TERM 0; } >/dev/null 2>&1 & watch=$!; exec 3<&-; "
    '"${SHELL:-/bin/sh}" -c "$1"; code=$?; kill "$watch"; exit "$code"'
)

Progress = Callable[[int, int, str], None]  # how many hosts are through, of how many, and which one just now
_T = TypeVar("_T")


class SshHosts(AbstractContextManager["SshHosts"]):
    """Entering logs in to all hosts, `parallel` at once, and raises one StartError with a line for each host that could not be reached by
    `deadline` seconds; with `partial` it goes on with those that could, and `failures` tells of the others. Everything is read from `home`
    (default: $HOME): ~/.ssh/config, known_hosts, keys. `progress` is called from the thread that enters. `lost_after`: seconds without
    a sign of life after which a connection, or an attempt at one, counts as lost."""

    def __init__(
        self,
        hosts: Sequence[Host],
        *,
        parallel: int = PARALLEL,
        deadline: float = DEADLINE,
        home: Path | None = None,
        progress: Progress | None = None,
        partial: bool = False,
        lost_after: float = LOST_AFTER,
    ) -> None:
        self.failures: dict[str, str] = {}
        self.hosts = tuple(hosts)
        self._hosts = {host.name: host for host in hosts}
        self._parallel = parallel
        self._deadline = deadline
        self._home = home or Path(os.environ.get("HOME") or "~").expanduser()
        self._progress = progress
        self._partial = partial
        self._lost_after = lost_after
        self._dialer: Dialer | None = None
        self._connections: dict[str, tuple[Any, str | None]] = {}
        self._forwards: list[Forward] = []

    def __enter__(self) -> SshHosts:
        end = time.monotonic() + self._deadline
        self._dialer = Dialer(self._home, end, self._lost_after)
        with ExitStack() as undo:
            undo.push(self)
            self._log_in(self._dialer, end)
            undo.pop_all()
        return self

    def __exit__(self, *details: object) -> None:
        for forward in self._forwards:
            forward.close()
        if self._dialer is not None:
            self._dialer.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts that are logged in to, in the order in which they were given."""
        return tuple(name for name in self._hosts if name in self._connections)

    def run(self, host: str, command: str, *, stdin: Input = None, timeout: float | None = None) -> Result:
        """Run a line of the user's shell on `host`. Secrets go into `stdin`, never into `command`, which everybody on the host can read.
        Raises HostError when the connection is lost or `timeout` seconds have passed; any exit code is a result."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.start(host, command) as process:
            return process.communicate(stdin, deadline)

    def run_on_a_leash(self, host: str, command: str, *, timeout: float | None = None) -> Result:
        """`run`, and the command and what it started are told to end (TERM) when this ends first, however it does. No input."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.start(host, "exec " + shlex.join(["sh", "-c", _LEASH, "sh", command])) as process:
            return process.communicate(None, deadline, keep_open=True)

    def run_all(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> dict[str, Result]:
        """`run` on every host at once. Raises StartError with a line for each host that has no result."""
        return self.each(lambda host: self.run(host, command, stdin=stdin, timeout=timeout))

    def each(self, work: Callable[[str], _T], hosts: Sequence[str] | None = None) -> dict[str, _T]:
        """What `work` makes of each host, all of them at once. Raises StartError with all failures, when all are done."""
        return all_or_error(self.attempt_each(work, hosts))

    def attempt_each(self, work: Callable[[str], _T], hosts: Sequence[str] | None = None) -> dict[str, _T | PsclustError]:
        """As `each`, with failures in their places."""
        names = self.names if hosts is None else hosts
        outcomes = dict(fan_out(names, work, parallel=_WORKERS))
        return {name: outcomes[name] for name in names}

    def start(self, host: str, command: str, purpose: str | None = None) -> RemoteProcess:
        """Start a line of the user's shell and leave it running. `purpose`: for messages, see RemoteProcess."""
        return RemoteProcess(host, command, self.transport(host), _OPEN_TIMEOUT, purpose)

    def forward(self, host: str, remote_host: str, remote_port: int) -> str:
        """The address of a port here, `127.0.0.1:port`, that leads to `remote_host:remote_port` as seen from `host`, until the end."""
        forward = Forward(self.transport(host), (remote_host, remote_port))
        self._forwards.append(forward)
        return forward.address

    def address_of(self, host: str) -> str | None:
        """The IPv4 address at which we reached the host; None behind a jump host or a ProxyCommand, and over IPv6."""
        address = self._connections[host][1]
        return address if address is not None and ipaddress.ip_address(address).version == 4 else None

    def _log_in(self, dialer: Dialer, end: float) -> None:
        outcomes = fan_out(list(self._hosts), lambda name: dialer.dial(self._hosts[name]), parallel=self._parallel, deadline=end + 1)
        for count, (name, outcome) in enumerate(outcomes, 1):
            if isinstance(outcome, PsclustError):
                self.failures[name] = str(outcome) if str(outcome).startswith(f"{name}: ") else f"{name}: {outcome}"
            else:
                self._connections[name] = outcome
            if self._progress is not None:
                self._progress(count, len(self._hosts), name)
        if self.failures and not self._partial:
            raise StartError("\n".join(self.failures[name] for name in self._hosts if name in self.failures))

    def transport(self, host: str) -> Any:
        """paramiko's end of the connection. Raises HostError when it is lost."""
        transport = self._connections[host][0].transport
        if not transport.is_active():
            raise HostError(f"{host}: the SSH connection is lost.")
        return transport
