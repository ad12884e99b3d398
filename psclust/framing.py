"""Length-prefixed messages over a Unix stream socket: 4 bytes of length, big-endian, then the
payload; file descriptors travel with the length.

Fork servers, their clients, forwarders and the standing agent use it; launcher and task side share
it, so it imports nothing of psclust. A remote Python is started without psclust and reads its first
program behind a decimal length instead (`reach.python.remote_command.BOOT`).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

_LENGTH = struct.Struct("!I")
_OWNER = struct.Struct("3i")  # struct ucred: process, user, group
_MAX_BYTES = 64 << 20


def send(connection: socket.socket, payload: bytes, files: Sequence[int] = ()) -> None:
    header = _LENGTH.pack(len(payload))
    sent = socket.send_fds(connection, [header], files) if files else 0
    connection.sendall(header[sent:] + payload)


def receive(connection: socket.socket, max_files: int = 0) -> tuple[bytes, list[int]]:
    """One payload, and its file descriptors, which the caller closes. Raises ConnectionResetError
    at the end of the stream, and for a message over 64 MB."""
    header, files, _, _ = socket.recv_fds(connection, _LENGTH.size, max_files)
    try:
        (size,) = _LENGTH.unpack(header + read_exactly(connection, _LENGTH.size - len(header)))
        if size > _MAX_BYTES:
            raise ConnectionResetError(f"a message of {size} bytes")
        return read_exactly(connection, size), files
    except OSError:
        for file in files:
            os.close(file)
        raise


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket, from the kernel."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _OWNER.size)
    return int(_OWNER.unpack(peer)[1])


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Raises ConnectionResetError where the stream ends before, and what `recv` raises."""
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the stream ended in the middle of a message")
        data += part
    return bytes(data)
