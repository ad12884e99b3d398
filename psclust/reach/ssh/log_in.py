"""Logs in to hosts as OpenSSH would: names, keys, jump hosts, proxy commands. One connection to
each host, and one to each jump host, however many hosts are behind it."""

from __future__ import annotations

import logging
import random
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.ssh_exception import AuthenticationException, ChannelException, SSHException

from psclust.errors import HostError
from psclust.reach.ssh.auth import Identities
from psclust.reach.ssh.known_hosts import judge, key_names, known_kinds, read_known_hosts
from psclust.reach.ssh.log_in_errors import (
    Attempt,
    ClosedEarlyError,
    HostKeyError,
    JumpError,
    ProxyCommandError,
    explain,
)
from psclust.reach.ssh.ssh_config import HostSettings, SshConfiguration
from psclust.rundir.log_tail import last_line
from psclust.spec.cluster import Host
from psclust.spec.whole_number import whole_number

_TIMEOUT_S = 10.0  # for a host that does not answer; ConnectTimeout wins
_HANDSHAKE_S = 30.0  # for a host that answers slowly
# At a host that hangs up before SSH begins: sshd does so at random when more than ten log in at
# once.
_TRIES = 6
LOST_AFTER_S = 60.0  # without an acknowledgement: then a connection counts as lost
_MOST_JUMPS = 8

# Without a handler, paramiko writes tracebacks to stderr of errors that it raises anyway.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class _KeyPolicy(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Checks every host key: paramiko's own store of keys stays empty, so it always asks here.
    Host-key checking is never off."""

    def __init__(self, settings: HostSettings) -> None:
        self._known = read_known_hosts(settings.known_hosts)
        self._names = key_names(settings.address, settings.port, settings.key_alias)

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        verdict = judge(self._known, self._names, key.asbytes())
        if verdict is not None:
            raise HostKeyError(verdict.entry, key.get_name(), key.asbytes())

    def transport(self, sock: Any, **options: Any) -> Any:
        """Asks for the kinds of key on file first: a host has several keys."""
        transport = paramiko.Transport(sock, **options)
        offered = transport.get_security_options()
        wanted = [
            kind for known in known_kinds(self._known, self._names) for kind in _signatures(known)
        ]
        first = [kind for kind in wanted if kind in offered.key_types]
        offered.key_types = [*first, *(kind for kind in offered.key_types if kind not in first)]
        return transport


def _signatures(kind: str) -> tuple[str, ...]:
    return ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa") if kind == "ssh-rsa" else (kind,)


@dataclass
class _Jump:
    """The connection to a jump host, or why there is none; `lock` is held while it is dialled."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: fabric.Connection | None = None
    failure: str | None = None


class Dialer:
    """`home`: the folder that holds `.ssh`; `deadline`: the time of `time.monotonic` until which
    hosts may be dialled; `lost_after_s`: see SshHosts. Thread-safe."""

    def __init__(self, home: Path, deadline: float, lost_after_s: float = LOST_AFTER_S) -> None:
        self._home = home
        self._deadline = deadline
        self._lost_after_s = lost_after_s
        self._configuration = SshConfiguration(home)
        self._lock = threading.Lock()  # guards what follows
        self._jumps: dict[tuple[str, ...], _Jump] = {}
        self._open: list[fabric.Connection] = []
        self._proxies: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def dial(self, host: Host) -> tuple[fabric.Connection, str | None]:
        """A logged-in connection, and the host's address if it was reached directly. Raises
        HostError."""
        settings = self._configuration.of(host)
        connection = self._connect(settings, depth=0)
        direct = not settings.jumps and settings.proxy_command is None
        return connection, connection.transport.getpeername()[0] if direct else None

    def close(self) -> None:
        """Close all connections; log-ins under way fail."""
        with self._lock:
            self._closed = True
            connections, proxies = list(reversed(self._open)), list(self._proxies)
        for connection in connections:
            connection.client.close()
        for process in proxies:
            process.kill()
            process.wait()

    def _connect(self, settings: HostSettings, depth: int) -> fabric.Connection:
        for attempt in range(1, _TRIES + 1):
            try:
                return self._try(settings, depth)
            except ClosedEarlyError as error:
                pause = random.uniform(0.1, 0.4) * 2**attempt
                if attempt == _TRIES or time.monotonic() + pause > self._deadline:
                    raise HostError(
                        f"{settings.name}: {explain(error, Attempt(settings, 0, None))}"
                    ) from None
                time.sleep(pause)
        raise AssertionError

    def _try(self, settings: HostSettings, depth: int) -> fabric.Connection:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise HostError(
                f"{settings.name}: not tried, the time for all log-ins is over. Raise `ssh: "
                f"{{deadline: ...}}` in the cluster file."
            )
        timeout_s = min(settings.connect_timeout_s or _TIMEOUT_S, left, self._lost_after_s)
        user = settings.user or str(fabric.Config(lazy=True).user)
        identities = Identities(settings.config.lookup(settings.name), user, self._home)
        attempt = Attempt(settings, timeout_s, identities)
        try:
            return self._log_in(
                settings,
                attempt,
                min(_HANDSHAKE_S, left),
                self._open_socket(settings, attempt, depth),
            )
        except ClosedEarlyError:
            raise
        except (OSError, SSHException, EOFError) as error:
            raise HostError(f"{settings.name}: {explain(error, attempt)}") from None
        finally:
            identities.close()

    def _log_in(
        self, settings: HostSettings, attempt: Attempt, handshake_s: float, sock: Any
    ) -> fabric.Connection:
        policy = _KeyPolicy(settings)
        limits = {
            "banner_timeout": handshake_s,
            "auth_timeout": handshake_s,
            "channel_timeout": handshake_s,
        }
        connection = fabric.Connection(
            settings.name,
            config=fabric.Config(lazy=True, ssh_config=settings.config),
            gateway=False,  # the socket is open already
            forward_agent=False,
            connect_timeout=max(1, round(handshake_s)),
            connect_kwargs={**limits, "sock": sock, "transport_factory": policy.transport},
        )
        connection.config.authentication.strategy_class = partial(_given, attempt.identities)
        connection.client.set_missing_host_key_policy(policy)
        with self._lock:
            if self._closed:
                sock.close()
                raise HostError(f"{settings.name}: given up.")
            self._open.append(connection)
        try:
            connection.open()
            if not connection.transport.is_authenticated():
                raise AuthenticationException("a key alone is not enough")
        except (OSError, SSHException, EOFError) as error:
            connection.client.close()
            sock.close()
            raise _cause(error, sock) from None
        connection.transport.set_keepalive(15)
        return connection

    def _open_socket(self, settings: HostSettings, attempt: Attempt, depth: int) -> Any:
        """A socket, or what paramiko accepts as one, whose other end is the host's sshd."""
        if settings.jumps and depth < _MOST_JUMPS:
            transport = self._jump(settings, settings.jumps, depth).transport
            try:
                return transport.open_channel(
                    "direct-tcpip",
                    (settings.address, settings.port),
                    ("", 0),
                    timeout=attempt.timeout_s,
                )
            except ChannelException as error:
                raise JumpError(error.text) from None
            except (OSError, SSHException, EOFError):
                raise JumpError("no answer") from None
        if settings.proxy_command is not None:
            return self._proxy(settings.proxy_command)
        direct = socket.create_connection((settings.address, settings.port), attempt.timeout_s)
        direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        direct.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(self._lost_after_s * 1000)
        )
        return direct

    def _jump(self, settings: HostSettings, hops: tuple[str, ...], depth: int) -> fabric.Connection:
        with self._lock:
            jump = self._jumps.setdefault(hops, _Jump())
        with jump.lock:
            if jump.connection is None and jump.failure is None:
                try:
                    jump.connection = self._connect(self._hop(settings, hops), depth + 1)
                except HostError as error:
                    jump.failure = str(error)
            if jump.connection is None:
                raise HostError(
                    f"{settings.name}: not reached, its jump host failed: {jump.failure}"
                )
            return jump.connection

    def _hop(self, settings: HostSettings, hops: tuple[str, ...]) -> HostSettings:
        """The last of `hops`, reached through the hops before it; the first hop as its own
        configuration says, but never through itself."""
        user, _, address = hops[-1].rpartition("@")
        name, _, port = address.partition(":")
        found = self._configuration.of(Host(name, user=user or None, port=whole_number(port)))
        jumps = hops[:-1] or tuple(hop for hop in found.jumps if hop not in hops)
        return HostSettings(**{**vars(found), "jumps": jumps})

    def _proxy(self, command: str) -> _ProxySocket:
        ours, theirs = socket.socketpair()
        error = tempfile.TemporaryFile()  # noqa: SIM115 - read after the socket is closed
        with theirs:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=error,
            )
        with self._lock:
            self._proxies.append(process)
        return _ProxySocket(ours, error)


class _ProxySocket:
    """Our end of a ProxyCommand, and the command's stderr."""

    def __init__(self, sock: socket.socket, stderr: Any) -> None:
        self._socket = sock
        self._stderr = stderr

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def last_error(self) -> str:
        self._stderr.seek(0)
        return last_line(self._stderr.read().decode(errors="replace")) or "it ended"


def _given(identities: Identities | None, **unused: Any) -> Identities | None:
    """Called by fabric to make an authentication strategy."""
    return identities


def _cause(error: Exception, sock: Any) -> Exception:
    """The error by type: paramiko tells these apart only by their text."""
    hung_up = isinstance(error, (EOFError, ConnectionError)) or (
        type(error) is SSHException and "banner" in str(error)
    )
    if isinstance(sock, _ProxySocket) and hung_up:
        return ProxyCommandError(sock.last_error())
    return ClosedEarlyError(str(error)) if hung_up else error
