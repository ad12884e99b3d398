"""The process of a forwarder. Its owner (`forwarder_process`) gives it sockets that listen, and
keeps them, so that another process can take over where this one has ended."""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import NoReturn

from psclust import framing
from psclust.forward.chosen_tls import choose_tls
from psclust.forward.tls import LIMIT_S, Credentials, Session, Tls

_PORT = struct.Struct("!H")  # what a forwarder sends first: the port that it wants
_STRANGERS = 64  # that have connected and not yet greeted; then the oldest goes
_SHORT_OF_FILES_S = 0.1


class Forwarder:
    """tls: with the host's certificate. peer_timeout_s: a peer's machine that has been out of reach
    for so long is lost."""

    def __init__(self, tls: Tls, peer_timeout_s: float) -> None:
        self._tls, self._peer_timeout_s = tls, peer_timeout_s
        self._strangers: OrderedDict[socket.socket, None] = OrderedDict()
        self._guard = threading.Lock()  # of `_strangers`

    def take_in(self, listener: socket.socket) -> None:
        """Serve the forwarders of other hosts, from now on."""
        _serve(listener, self._bring_in)

    def forward(self, listener: socket.socket, host: str, address: tuple[str, int]) -> None:
        """Carry what connects to the port of `listener` to the same port of `host` (the name in its
        certificate), whose forwarder is at `address`, from now on."""
        port = listener.getsockname()[1]
        _serve(listener, lambda plain: self._bring_out(plain, port, host, address))

    def _bring_out(
        self, plain: socket.socket, port: int, host: str, address: tuple[str, int]
    ) -> None:
        if not self._tls.admits(plain):
            return
        with socket.create_connection(address, timeout=LIMIT_S) as sock:
            self._prepare(sock)
            with closing(self._tls.greet(sock, host)) as session:
                session.write(_PORT.pack(port))
                _carry(session, plain)

    def _bring_in(self, sock: socket.socket) -> None:
        self._prepare(sock)
        with self._guard:
            self._strangers[sock] = None
            if len(self._strangers) > _STRANGERS:
                oldest, _ = self._strangers.popitem(last=False)
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        try:
            session = self._tls.greet(sock, None)
        finally:
            with self._guard:
                self._strangers.pop(sock, None)
        with closing(session):
            (port,) = _PORT.unpack(session.read(_PORT.size))
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as plain:
                _carry(session, plain)

    def _prepare(self, sock: socket.socket) -> None:
        """As the server shim does for a connection between tasks (native/lost_peer.h)."""
        limit = max(3, int(self._peer_timeout_s))
        for level, name, value in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, limit // 2),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, limit // 6)),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit * 1000),
        ):
            sock.setsockopt(level, name, value)


def _carry(session: Session, plain: socket.socket) -> None:
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    session.carry(plain)


def _serve(listener: socket.socket, handle: Callable[[socket.socket], None]) -> None:
    """Handle each connection on a thread of its own, until the listener is shut down."""

    def work(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            handle(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                if not _listens(listener):
                    listener.close()
                    return
                time.sleep(_SHORT_OF_FILES_S)
                continue
            try:
                threading.Thread(target=work, args=(connection,), daemon=True).start()
            except RuntimeError:  # no room for a thread
                connection.close()

    threading.Thread(target=accept, daemon=True).start()


def _listens(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def main(control: socket.socket) -> None:
    """Serve until the owner ends. Its first message has the credentials and what `Forwarder` takes;
    each other one a socket, and where to."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    threading.stack_size(256 << 10)
    with suppress(ConnectionError):
        _obey(control)
    os._exit(0)  # threads still carry


def _obey(control: socket.socket) -> NoReturn:
    """Raises ConnectionError when the owner has ended."""
    first = json.loads(framing.receive(control)[0])
    credentials = Credentials.from_json(first["credentials"])
    with _quiet():
        tls = choose_tls(first["native"], first["tensorflow"], credentials)
    forwarder = Forwarder(tls, first["peer_timeout_s"])
    framing.send(control, tls.name.encode())
    while True:
        message, (descriptor,) = framing.receive(control, max_files=1)
        wanted = json.loads(message)
        listener = socket.socket(fileno=descriptor)
        if wanted is None:
            forwarder.take_in(listener)
        else:
            forwarder.forward(listener, wanted["host"], tuple(wanted["address"]))


@contextmanager
def _quiet() -> Iterator[None]:
    """TensorFlow's library, when it is loaded, writes of devices that nobody uses here."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
