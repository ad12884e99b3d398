"""What a process and its children use on this machine: CPU, memory, and bytes on TCP connections.

Linux counts bytes for each connection alone; a netlink socket of the family NETLINK_SOCK_DIAG lists
all connections of the network namespace (sock_diag(7)), and /proc says which process has which.
Asked in the older way, which sock_diag(7) replaces, it lists those of IPv4 and IPv6 at once; the
newer goes through the kernel's table of all connections for each, 1 to 2 ms each time, however few
there are.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from psclust.transport.gpu_usage import GpuUsage, gpu_usage
from psclust.transport.process_stat import SYSTEM_TICKS, TICKS_A_SECOND, USER_TICKS, stat_fields

_NETLINK_SOCK_DIAG, _TCPDIAG_GETSOCK, _DUMP = (
    4,
    18,
    0x301,
)  # 0x301: NLM_F_REQUEST, NLM_F_ROOT, NLM_F_MATCH
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_INFO = 2
_HEADER, _REQUEST = (
    struct.Struct("=IHHII"),
    struct.Struct("=3xB48xI4x"),
)  # of inet_diag_req: what is wanted, in which states
# The end of inet_diag_msg: bytes not read, bytes not acknowledged, the owner, the inode.
_MESSAGE_BYTES, _QUEUES = 72, struct.Struct("=IIII")
_ACKED = struct.Struct("=QQ")  # of tcp_info: bytes_acked, bytes_received
_ACKED_OFFSET = 120
_LISTENING = 10
_PAGE = os.sysconf("SC_PAGE_SIZE")
_DEEPEST = 4  # generations of children


class Connection(NamedTuple):
    """Bytes of a TCP connection. sent: and acknowledged. unread: arrived, not read. unsent:
    written, not acknowledged."""

    sent: int
    received: int
    unread: int
    unsent: int


@dataclass(frozen=True, slots=True)
class Usage:
    """cpu_s: seconds of CPU so far. memory: resident bytes, what it shares with others included.
    sockets: inode of a connection -> (bytes sent and acknowledged, bytes received) since it was
    made; None where the kernel does not say. gpu: None if it uses none. left: bytes of
    memory that its host has left for it, None if not known. unread, unsent: of all its connections,
    see `Connection`."""

    cpu_s: float = 0.0
    memory: int = 0
    sockets: Mapping[int, tuple[int, int]] | None = None
    gpu: GpuUsage | None = None
    left: int | None = None
    unread: int | None = None
    unsent: int | None = None

    def rates(self, before: Usage, seconds: float) -> tuple[float, float | None, float | None]:
        """(CPU in cores, bytes received a second, bytes sent a second) since `before`, `seconds`
        ago. What a connection that has closed since then moved last is missing."""
        cpu = max(0.0, self.cpu_s - before.cpu_s) / seconds
        if self.sockets is None or before.sockets is None:
            return cpu, None, None
        old = {inode: before.sockets.get(inode, (0, 0)) for inode in self.sockets}
        sent = sum(now[0] - old[inode][0] for inode, now in self.sockets.items())
        received = sum(now[1] - old[inode][1] for inode, now in self.sockets.items())
        return cpu, max(0, received) / seconds, max(0, sent) / seconds


def usage(
    pid: int,
    connections: Mapping[int, Connection] | None,
    gpus: Mapping[int, GpuUsage] | None = None,
    left: int | None = None,
) -> Usage:
    """Of the process and its descendants. connections: of `tcp_connections`. gpus: of `GpuReader`.
    left: of `memory_left`."""
    cpu_s, memory, pids = 0.0, 0, list(family(pid))
    own: dict[int, Connection] = {}
    for each in pids:
        with suppress(OSError):
            fields = stat_fields(each)
            cpu_s += (int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) / TICKS_A_SECOND
            memory += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * _PAGE
            if connections is not None:
                own.update(
                    {inode: connections[inode] for inode in _inodes(each) if inode in connections}
                )
    used = Usage(cpu_s, memory, gpu=gpu_usage(gpus or {}, pids), left=left)
    if connections is None:
        return used
    return replace(
        used,
        sockets={inode: (each.sent, each.received) for inode, each in own.items()},
        unread=sum(each.unread for each in own.values()),
        unsent=sum(each.unsent for each in own.values()),
    )


def family(pid: int, depth: int = 0) -> Iterator[int]:
    """The process, then its descendants."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children if depth < _DEEPEST else ():
        yield from family(int(child), depth + 1)


def _inodes(pid: int) -> Iterator[int]:
    """Of the sockets of a process."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with suppress(OSError):
            target = os.readlink(f"{folder}/{name}")
            if target.startswith("socket:["):
                yield int(target[8:-1])


def tcp_connections() -> dict[int, Connection] | None:
    """By inode, all TCP connections of this network namespace; None where the kernel, or a
    container, does not say."""
    try:
        return _ask()
    except OSError:
        return None


def _ask() -> dict[int, Connection]:
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
    ) as link:
        link.settimeout(2.0)
        body = _REQUEST.pack(1 << (_INET_DIAG_INFO - 1), 0xFFF & ~(1 << _LISTENING))
        link.send(_HEADER.pack(_HEADER.size + len(body), _TCPDIAG_GETSOCK, _DUMP, 1, 0) + body)
        return dict(_answers(link))


def _answers(link: socket.socket) -> Iterable[tuple[int, Connection]]:
    while True:
        data = link.recv(1 << 18)
        while data:
            length, kind, *_ = _HEADER.unpack_from(data)
            if kind == _NLMSG_ERROR:
                raise OSError("the kernel does not list connections")
            if kind == _NLMSG_DONE:
                return
            message, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
            unread, unsent, _, inode = _QUEUES.unpack_from(message, _MESSAGE_BYTES - _QUEUES.size)
            counts = _counts(message[_MESSAGE_BYTES:])
            if counts is not None:
                yield inode, Connection(*counts, unread, unsent)


def _counts(attributes: bytes) -> tuple[int, int] | None:
    while len(attributes) >= 4:
        length, kind = struct.unpack_from("=HH", attributes)
        if kind == _INET_DIAG_INFO and length >= 4 + _ACKED_OFFSET + _ACKED.size:
            acked, received = _ACKED.unpack_from(attributes, 4 + _ACKED_OFFSET)
            return acked, received
        attributes = attributes[max((length + 3) & ~3, 4) :]
    return None
