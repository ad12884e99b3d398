"""TLS between two forwarders, by C and by Python's `ssl`: each against itself and the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from psclust.agent.access import server_name
from psclust.control.certificates import Authority
from psclust.forward.forwarder import choose_tls
from psclust.forward.forwarder_process import find_tensorflow
from psclust.forward.native_tls import NativeTls
from psclust.forward.python_tls import PythonTls
from psclust.forward.tls import Identity, Tls
from psclust.transport.server_shim import tls_library

KINDS = ("c", "python")
LIMIT_S = 30.0
RUN = Authority("run")
LARGE = bytes(range(256)) * 40_000


def make(kind: str, identity: Identity) -> Tls:
    if kind == "python":
        return PythonTls(identity)
    native, tensorflow = tls_library(), find_tensorflow()
    assert native is not None
    assert tensorflow is not None
    return NativeTls(native, tensorflow, identity)


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    for end in (near, far):
        end.settimeout(LIMIT_S)
    return near, far


class Carried:
    """What is written to `near` can be read from `far`, and back, over TLS between two threads.
    cut: the two ends of TLS."""

    def __init__(self, stack: ExitStack, connects: Tls, accepts: Tls, name: str) -> None:
        outer, inner = connected(), connected()
        self.near, near = connected()
        self.far, far = connected()
        self.cut = inner
        self.errors: list[OSError] = []
        for end in (*outer, self.near, self.far):
            stack.enter_context(end)
        self.threads = [
            threading.Thread(target=self._end, args=(connects, inner[0], name, near)),
            threading.Thread(target=self._end, args=(accepts, inner[1], None, far)),
        ]
        for thread in self.threads:
            thread.start()

    def _end(self, tls: Tls, sock: socket.socket, name: str | None, plain: socket.socket) -> None:
        with sock, plain:
            try:
                session = tls.greet(sock, name)
            except OSError as error:
                self.errors.append(error)
                return
            with closing(session):
                session.carry(plain)

    def ended(self) -> bool:
        for thread in self.threads:
            thread.join(LIMIT_S)
        return not any(thread.is_alive() for thread in self.threads)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def receive(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (part := sock.recv(1 << 20)):
        found += part
    return found


@pytest.mark.parametrize("accepts", KINDS)
@pytest.mark.parametrize("connects", KINDS)
def test_bytes_pass_both_ways_until_a_side_ends(
    stack: ExitStack, connects: str, accepts: str
) -> None:
    one, other = make(connects, RUN.forwarder("a")), make(accepts, RUN.forwarder("b"))
    carried = Carried(stack, one, other, server_name("b"))
    both = threading.Thread(target=carried.far.sendall, args=(LARGE[::-1],))
    both.start()
    sent = threading.Thread(target=carried.near.sendall, args=(LARGE,))
    sent.start()
    got_back = threading.Thread(target=lambda: found.append(receive(carried.near, len(LARGE))))
    found: list[bytes] = []
    got_back.start()
    assert receive(carried.far, len(LARGE)) == LARGE
    for thread in (both, sent, got_back):
        thread.join(LIMIT_S)
    assert found == [LARGE[::-1]]
    carried.near.shutdown(socket.SHUT_WR)
    assert carried.far.recv(1) == b""
    if connects == accepts == "c":
        carried.far.sendall(b"late")
        carried.far.shutdown(socket.SHUT_WR)
        assert receive(carried.near, 5) == b"late"
    else:
        carried.far.close()
        assert carried.near.recv(1) == b""
    assert carried.ended()


@pytest.mark.parametrize("accepts", KINDS)
@pytest.mark.parametrize("connects", KINDS)
@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (Authority("another run").forwarder("a"), server_name("b")),
        (RUN.forwarder("a"), server_name("c")),  # not whom it meant to reach
    ],
    ids=["another run", "another host"],
)
def test_who_is_not_of_the_run_is_refused(
    stack: ExitStack, connects: str, accepts: str, identity: Identity, name: str
) -> None:
    one, other = make(connects, identity), make(accepts, RUN.forwarder("b"))
    carried = Carried(stack, one, other, name)
    assert carried.ended()
    assert carried.errors
    with suppress(ConnectionResetError):
        assert carried.far.recv(1) == b""


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_is_cut_ends_both_sides(stack: ExitStack, kind: str) -> None:
    one, other = make(kind, RUN.forwarder("a")), make(kind, RUN.forwarder("b"))
    carried = Carried(stack, one, other, server_name("b"))
    carried.near.sendall(b"x")
    assert carried.far.recv(1) == b"x"
    carried.cut[0].shutdown(socket.SHUT_RDWR)
    assert carried.ended()
    assert carried.near.recv(1) == b""
    assert carried.far.recv(1) == b""


@pytest.mark.parametrize("kind", KINDS)
def test_garbage_is_refused(kind: str) -> None:
    tls = make(kind, RUN.forwarder("b"))
    stranger, sock = connected()
    with stranger, sock:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(OSError, match=r"certificate|SSL"):
            tls.greet(sock, None)


@pytest.mark.parametrize(
    ("native", "tensorflow"), [(None, "x"), ("x", None), (tls_library(), tls_library())]
)
def test_without_a_library_that_fits_it_is_pythons(
    native: str | None, tensorflow: str | None
) -> None:
    found = choose_tls(native, tensorflow, RUN.forwarder("a"))
    assert found.name == "Python's ssl"
