"""Ports, reserved on the host that uses them. A reservation is a bound socket that never listens:
the server shim lets that task's server bind the port beside it, and no other process can take the
port while the task may start again."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from psclust.errors import PortBusyError, StartError
from psclust.plan.port_request import PortRequest
from psclust.spec.cluster import Task
from psclust.spec.port_range import parse_port_range

_TRIES = 10


class PortReservations:
    """The ports of one run's tasks on this machine. shim: whether their servers have it; without
    it, any server that sets SO_REUSEADDR, as those of TensorFlow do, can take a reserved port
    without a listener."""

    def __init__(self, *, shim: bool = True) -> None:
        self._shim = shim
        self._sockets: dict[Task, _Reserved] = {}

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        """Reserve all or none. A task keeps a port it holds if that suits the request. Raises
        PortBusyError, naming the holder of a fixed port, or StartError for a range without a free
        port or an address that is not this machine's."""
        taken: dict[Task, _Reserved] = {}
        with ExitStack() as undo, _one_at_a_time():
            for request in requests:
                if not self._suits(request):
                    taken[request.task] = undo.enter_context(
                        closing(_reserve(request, lenient=request.is_extra or not self._shim))
                    )
            undo.pop_all()
        for task in taken.keys() & self._sockets.keys():
            self._sockets[task].close()
        self._sockets |= taken
        return {request.task: self._sockets[request.task].port for request in requests}

    def close(self) -> None:
        for sock in self._sockets.values():
            sock.close()

    def _suits(self, request: PortRequest) -> bool:
        if request.task not in self._sockets:
            return False
        low, high = parse_port_range(request.wanted)
        return request.wanted == "auto" or low <= self._sockets[request.task].port <= high


class _Reserved(NamedTuple):
    """A bound socket; for a lenient one also the claim that keeps other runs of psclust off its
    port."""

    sock: socket.socket
    claim: socket.socket | None

    @property
    def port(self) -> int:
        return int(self.sock.getsockname()[1])

    def close(self) -> None:
        self.sock.close()
        if self.claim is not None:
            self.claim.close()


def listen_in(address: str, ports: str) -> socket.socket:
    """A listening socket on the first free port of `ports` (a range, or auto). Raises
    StartError."""
    low, high = parse_port_range(ports)
    for port in range(low, high + 1):
        try:
            with _claim(address, port) if port else nullcontext():
                return socket.create_server((address, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise StartError(
                    f"cannot listen on {address}: {error.strerror}. "
                    "Name an address of this machine."
                ) from error
    raise StartError(
        f"no port of {ports} is free on {address}. "
        "Widen the range or let psclust choose: `ports: auto`."
    )


def add_secure_port(server: Any, credentials: Any, address: str, ports: str) -> int:
    """Make a gRPC server that has not started listen on the first free port of `ports`, which is
    returned. Raises StartError."""
    for _ in range(_TRIES):
        # Another process may take the port between these lines; then try the next.
        with listen_in(address, ports) as found:
            port = int(found.getsockname()[1])
        with suppress(RuntimeError):
            return int(server.add_secure_port(f"{address}:{port}", credentials))
    raise StartError(
        f"no port of {address}: other processes took {_TRIES} free ports before psclust could"
    )


def _reserve(request: PortRequest, *, lenient: bool) -> _Reserved:
    low, high = parse_port_range(request.wanted)
    for port in range(low, high + 1):
        try:
            return _bind(request.host, port, lenient=lenient)
        except OSError as error:
            if error.errno != errno.EADDRINUSE and error.errno != errno.EACCES:
                raise StartError(
                    f"{request.what}: cannot use the address {request.host}: {error.strerror}. "
                    "Name an address of this machine."
                ) from error
            if low == high != 0:
                raise PortBusyError(
                    request.what, f"{request.host}:{port}", port_holder(port)
                ) from error
    raise StartError(
        f"{request.what}: no port of {request.wanted} is free on {request.host}. "
        "Widen the range or let psclust choose: `ports: auto`."
    )


def _claim(host: str, port: int) -> socket.socket:
    """An abstract socket name: held by one process at a time, freed with it, and local to the
    port's network namespace. Raises OSError."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        claim.bind(f"\0psclust-port-{host}:{port}")
    except OSError:
        claim.close()
        raise
    return claim


def _bind(host: str, port: int, *, lenient: bool) -> _Reserved:
    """Bind exclusively, so that a port in use is refused even if its owner would share it, and
    share it only then. SO_REUSEADDR allows a port whose old connections are in TIME_WAIT; it stays
    set if `lenient`, for servers that do not set SO_REUSEPORT (TensorBoard, http.server,
    TensorFlow's without the shim)."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1 if port else 0)
        sock.bind((host, port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(lenient))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        claim = _claim(host, sock.getsockname()[1])
    except OSError:
        sock.close()
        raise
    if lenient:
        return _Reserved(sock, claim)
    claim.close()
    return _Reserved(sock, None)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Serialize the runs of one user: between bind and the socket options, two of them could both
    take the same fixed port."""
    path = os.path.join(tempfile.gettempdir(), f"psclust-ports-{os.getuid()}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def port_holder(port: int) -> str | None:
    """The process that listens on a port of this machine, as `python (pid 4711)`; None if it
    belongs to another user."""
    sockets = {
        f"socket:[{inode}]"
        for table in ("tcp", "tcp6")
        for inode in _listening(Path("/proc/net", table), port)
    }
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # has ended, or belongs to another user
            if not sockets.isdisjoint(_open_files(process)):
                return (
                    f"{(process / 'comm').read_text(errors='replace').strip()} (pid {process.name})"
                )
    return None


def _open_files(process: Path) -> Iterator[str]:
    for file in (process / "fd").iterdir():
        with suppress(
            FileNotFoundError
        ):  # closed since; in this process, what lists the folder is one of them
            yield os.readlink(file)


def _listening(table: Path, port: int) -> Iterator[str]:
    """The inodes of sockets that listen on `port`; see proc(5) for the columns."""
    with suppress(FileNotFoundError):  # a kernel without IPv6
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                yield inode
