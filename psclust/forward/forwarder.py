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
from psclust.forward import wires
from psclust.forward.native_tls import NativeTls
from psclust.forward.route import Route
from psclust.forward.tls import LIMIT_S, Identity, Session, Tls

# What comes first by a connection from another host: by TLS the port that is wanted, or, in the
# open, which wire is to go on by itself; a greeting of TLS begins with another byte.
_PORT = struct.Struct("!H")
_WIRE = struct.Struct("!cQ")
_IS_WIRE = b"w"
_NO_PORT = 0  # of a question for certificates
_BESIDE = -1  # of a task that wants to know when this forwarder ends
_STRANGERS = 64  # that have connected and not yet greeted; then the oldest goes
_SHORT_OF_FILES_S = 0.1
_ROUTE_S, _LOOK_S = 2.0, 0.05  # for a route that the owner has sent and that has not been read yet


class Forwarder:
    """tls: with the host's certificate. peer_timeout_s: a peer's machine that has been out of reach
    for so long is lost."""

    def __init__(self, tls: Tls, identity: Identity, peer_timeout_s: float) -> None:
        self._tls, self._identity, self._peer_timeout_s = tls, identity, peer_timeout_s
        self._routes: dict[int, Route] = {}
        self._strangers: OrderedDict[socket.socket, None] = OrderedDict()
        self._guard = threading.Lock()  # of `_strangers`

    def take_in(self, listener: socket.socket) -> None:
        """Serve the forwarders of other hosts, from now on."""
        _serve(listener, self._bring_in)

    def hand_over(self, listener: socket.socket) -> None:
        """Answer tasks of this host that connect a wire of theirs, from now on."""
        _serve(listener, self._answer)

    def forward(self, route: Route, listener: socket.socket | None) -> None:
        """From now on carry what connects to `listener`, if there is one, by the route, and have
        wires take it."""
        self._routes[route.port] = route
        if listener is not None:
            _serve(listener, lambda plain: self._bring_out(plain, route))

    def forget(self, port: int) -> None:
        self._routes.pop(port, None)

    def _bring_out(self, plain: socket.socket, route: Route) -> None:
        if not self._tls.admits(plain):
            return
        with self._connected(route) as sock, closing(self._tls.greet(sock, route.host)) as session:
            session.write(_PORT.pack(route.port))
            _carry(session, plain)

    def _connected(self, route: Route) -> socket.socket:
        sock = socket.create_connection(route.door, timeout=LIMIT_S)
        self._prepare(sock)
        return sock

    def _bring_in(self, sock: socket.socket) -> None:
        self._prepare(sock)
        with self._guard:
            self._strangers[sock] = None
            if len(self._strangers) > _STRANGERS:
                oldest, _ = self._strangers.popitem(last=False)
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        try:
            sock.settimeout(LIMIT_S)
            if sock.recv(1, socket.MSG_PEEK) == _IS_WIRE:
                _, number = _WIRE.unpack(framing.read_exactly(sock, _WIRE.size))
                return wires.hand_over(sock, number)
            session = self._tls.greet(sock, None)
        finally:
            with self._guard:
                self._strangers.pop(sock, None)
        with closing(session):
            (port,) = _PORT.unpack(session.read(_PORT.size))
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as plain:
                _carry(session, plain)

    def _answer(self, task: socket.socket) -> None:
        port, number = wires.question(task)
        if port == _BESIDE:
            return wires.stay(task)
        if port == _NO_PORT:
            return wires.answer(task, "", self._identity, None)
        until = time.monotonic() + _ROUTE_S
        while (route := self._routes.get(port)) is None:
            try:  # the other one is of this host
                with wires.connected(number) as sock:
                    return wires.answer(task, "", self._identity, sock)
            except OSError:
                if time.monotonic() > until:
                    raise
            time.sleep(_LOOK_S)
        with self._connected(route) as sock:
            sock.sendall(_WIRE.pack(_IS_WIRE, number))
            wires.answer(task, route.host, self._identity, sock)

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
    """Serve until the owner ends. Its first message has what `Forwarder` takes, each other one the
    name of a method, a route or a port, and a listener if there is one."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    threading.stack_size(256 << 10)
    with suppress(ConnectionError):
        _obey(control)
    os._exit(0)  # threads still carry


def _obey(control: socket.socket) -> NoReturn:
    """Raises ConnectionError when the owner has ended."""
    first = json.loads(framing.receive(control)[0])
    identity = Identity(**first["identity"])
    with _quiet():
        tls = choose_tls(first["native"], first["tensorflow"], identity)
    forwarder = Forwarder(tls, identity, first["peer_timeout_s"])
    framing.send(control, tls.name.encode())
    while True:
        message, descriptors = framing.receive(control, max_files=1)
        listeners = [socket.socket(fileno=each) for each in descriptors]
        match json.loads(message):
            case {"take_in": _}:
                forwarder.take_in(*listeners)
            case {"hand_over": _}:
                forwarder.hand_over(*listeners)
            case {"forward": route}:
                forwarder.forward(Route(**route), next(iter(listeners), None))
            case {"forget": port}:
                forwarder.forget(port)


def choose_tls(native: str | None, tensorflow: str | None, identity: Identity) -> Tls:
    """TLS by C, with the BoringSSL of TensorFlow's library, if there is psclust's library `native`
    and TensorFlow's has all that it needs; else by Python's `ssl`, which is slower."""
    if native is not None and tensorflow is not None:
        with suppress(OSError):
            return NativeTls(native, tensorflow, identity)
    from psclust.forward.python_tls import PythonTls

    return PythonTls(identity)


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
