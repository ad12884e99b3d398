"""What a forwarder does for psclust's own wire, of tasks of its host (native/forwarded.c): it hands
over sockets that are connected, in both directions, and tells the certificates; TLS is the task's
own. The sockets of wires are Linux's abstract ones, which are no files and end with their
process."""

from __future__ import annotations

import os
import secrets
import socket
import struct

from psclust import framing
from psclust.forward.tls import LIMIT_S, Identity

_NUMBER = struct.Struct("!Q")


def listening() -> socket.socket:
    """Where tasks of this host ask. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.bind(f"\0psclust/forwarder/{secrets.token_hex(16)}")
    sock.listen(128)
    return sock


def question(task: socket.socket) -> tuple[int, int]:
    """The port of the other task, and the number of its wire. Raises OSError for what is none of
    this user's."""
    _require_own(task)
    task.settimeout(LIMIT_S)
    try:
        port, number = task.recv(64).split()
        return int(port), _NUMBER.unpack(_NUMBER.pack(int(number)))[0]
    except (ValueError, struct.error):
        raise ConnectionResetError("no question") from None


def stay(task: socket.socket) -> None:
    """Until the task closes the connection. Raises OSError."""
    task.settimeout(None)
    task.recv(1)


def answer(task: socket.socket, peer: str, identity: Identity, sock: socket.socket | None) -> None:
    """peer: whose certificate to ask for; empty: `sock` is of this host."""
    texts = peer, identity.key, identity.certificate, identity.authority
    message = "".join(f"{text}\0" for text in texts).encode()
    if sock is not None:
        sock.setblocking(True)
    socket.send_fds(task, [message], [sock.fileno()] if sock is not None else [])


def connected(number: int) -> socket.socket:
    """To the wire of this number. Raises OSError where there is none of this user."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(LIMIT_S)
        sock.connect(f"\0psclust/wire/{number}")
        _require_own(sock)
    except OSError:
        sock.close()
        raise
    return sock


def hand_over(sock: socket.socket, number: int) -> None:
    """Raises OSError."""
    with connected(number) as wire:
        socket.send_fds(wire, [b"\0"], [sock.fileno()])


def _require_own(sock: socket.socket) -> None:
    if framing.peer_uid(sock) not in (os.geteuid(), 0):
        raise PermissionError("a process of another user")
