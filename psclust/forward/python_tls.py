"""TLS by Python's `ssl`, for a host without psclust's C or without TensorFlow's library."""

from __future__ import annotations

import os
import select
import socket
import ssl
from contextlib import suppress

from psclust import framing
from psclust.forward.tls import LIMIT_S, PYTHON, Identity

_ROOM = 1 << 17


class PythonTls:
    name = PYTHON

    def __init__(self, identity: Identity) -> None:
        self._contexts = {accepts: _context(identity, accepts=accepts) for accepts in (True, False)}

    def admits(self, sock: socket.socket) -> bool:
        """Without C, servers cannot tell either."""
        return True

    def greet(self, sock: socket.socket, peer: str | None) -> PythonSession:
        sock.settimeout(LIMIT_S)
        # `wrap_socket` takes the descriptor away from its socket; the caller keeps that.
        return PythonSession(
            self._contexts[peer is None].wrap_socket(
                sock.dup(),
                server_side=peer is None,
                server_hostname=peer,
                suppress_ragged_eofs=False,
            )
        )


class PythonSession:
    def __init__(self, tls: ssl.SSLSocket) -> None:
        self._tls = tls

    def read(self, size: int) -> bytes:
        return framing.read_exactly(self._tls, size)

    def write(self, data: bytes) -> None:
        self._tls.sendall(data)

    def carry(self, plain: socket.socket) -> None:
        self._tls.setblocking(False)
        plain.setblocking(False)
        with suppress(OSError):
            _Carried(self._tls, plain).run()

    def close(self) -> None:
        with self._tls, suppress(OSError):
            self._tls.unwrap()  # the peer learns that nothing was cut off


class _Carried:
    """As tls_carry of native/tls.c, on one thread, as a TLS connection is not for two. But when one
    side ends, so does the other: Python cannot end a connection one way and go on to read. `out`,
    `back`: read from one side and not yet written to the other."""

    def __init__(self, tls: ssl.SSLSocket, plain: socket.socket) -> None:
        self._tls, self._plain = tls, plain
        self._out = self._back = b""
        self._wanted: dict[socket.socket, int] = {}

    def run(self) -> None:
        """Raises OSError when a side has ended or is cut off."""
        while True:
            self._wanted.clear()
            moved = [self._send_some(), self._receive_some()]
            if not any(moved):
                waiting = select.poll()
                for sock, events in self._wanted.items():
                    waiting.register(sock, events)
                waiting.poll()

    def _send_some(self) -> bool:
        try:
            self._out = self._out or _some(self._plain)
            self._out = self._out[self._tls.send(self._out) :]
        except ssl.SSLWantReadError:
            return self._want(self._tls, select.POLLIN)
        except ssl.SSLWantWriteError:
            return self._want(self._tls, select.POLLOUT)
        except BlockingIOError:
            return self._want(self._plain, select.POLLIN)
        return True

    def _receive_some(self) -> bool:
        try:
            self._back = self._back or _some(self._tls)
            self._back = self._back[self._plain.send(self._back) :]
        except ssl.SSLWantReadError:
            return self._want(self._tls, select.POLLIN)
        except ssl.SSLWantWriteError:
            return self._want(self._tls, select.POLLOUT)
        except BlockingIOError:
            return self._want(self._plain, select.POLLOUT)
        return True

    def _want(self, sock: socket.socket, events: int) -> bool:
        self._wanted[sock] = self._wanted.get(sock, 0) | events
        return False


def _some(sock: socket.socket) -> bytes:
    data = sock.recv(_ROOM)
    if not data:
        raise ConnectionResetError("it has ended")
    return data


def _context(identity: Identity, *, accepts: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if accepts else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=identity.authority)
    if accepts:
        context.num_tickets = 0
    # It reads keys from files alone; this one is in memory.
    with open(os.memfd_create("key"), "w", encoding="ascii") as file:
        file.write(identity.key + identity.certificate)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
