"""A forwarder's process: its ports, and its ends. What it carries is in
tests/launch/test_encrypted_hosts.py: one machine has each port once."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest

from psclust.agent.access import server_name
from psclust.control.certificates import Authority
from psclust.forward.forwarder_process import ForwarderProcess
from psclust.forward.route import Route
from psclust.forward.tls import Identity
from psclust.testing.wait import wait_until
from psclust.transport.server_shim import tls_library

pytestmark = pytest.mark.process

RUN = Authority("run")


Make = Callable[[str, bool], ForwarderProcess]


@pytest.fixture
def make() -> Iterator[Make]:
    """By the name of a host, and whether tasks run there."""
    with ExitStack() as stack:

        def make(host: str, has_tasks: bool) -> ForwarderProcess:
            ports = "auto" if has_tasks else None
            made = ForwarderProcess(RUN.forwarder(host), tls_library(), 30.0, ports)
            stack.callback(made.close)
            return made

        yield make
    wait_until(lambda: not _processes(), what="the end of all")


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _processes() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # has ended; agents reap their children
            if "psclust.forward.forwarder" in " ".join(child.cmdline()):
                found.append(child)
    return found


def test_a_port_that_is_taken_is_named(make: Make) -> None:
    home, away = make("h1", True), make("h2", False)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port, free = int(other.getsockname()[1]), _free()
        routes = [Route(each, server_name("h1"), f"127.0.0.1:{home.port}") for each in (port, free)]
        assert away.forward(routes) == [port]
    assert away.forward(routes) == []  # also one that it had before
    away.forget([free])
    socket.create_server(("127.0.0.1", free)).close()


def test_it_knows_where_a_connection_goes(make: Make) -> None:
    away, port = make("h2", False), _free()
    away.forward([Route(port, server_name("h1"), "10.0.0.1:2300")])
    assert away.way(f"127.0.0.1:{port}") == "10.0.0.1:2300"
    away.forget([port])
    assert away.way(f"127.0.0.1:{port}") == f"127.0.0.1:{port}"


def test_one_that_is_killed_is_started_again_and_keeps_its_ports(make: Make) -> None:
    home = make("h1", True)
    (first,) = _processes()
    port = home.port
    os.kill(first.pid, signal.SIGKILL)
    again = wait_until(
        lambda: [each for each in _processes() if each.pid != first.pid], what="another forwarder"
    )
    assert again
    assert home.port == port
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
        stranger.sendall(b"garbage, not TLS")
        stranger.settimeout(20)
        with suppress(ConnectionResetError):
            while said := stranger.recv(1024):
                assert said[:1] == b"\x15"  # an alert


def _asked(forwarder: ForwarderProcess, question: bytes) -> tuple[list[str], list[socket.socket]]:
    name = forwarder.environ["PSCLUST_FORWARDER"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as task:
        task.settimeout(20)
        task.connect(f"\0{name}")
        task.send(question)
        message, descriptors, _, _ = socket.recv_fds(task, 1 << 14, 1)
    return message.decode().split("\0"), [socket.socket(fileno=each) for each in descriptors]


def _has_route(forwarder: ForwarderProcess, question: bytes) -> bool:
    (name, *_), (sock,) = _asked(forwarder, question)
    sock.close()
    return name != ""


def _handed_over(wire: socket.socket) -> socket.socket:
    while True:
        connection, _ = wire.accept()
        with connection:
            if there := socket.recv_fds(connection, 1, 1)[1]:
                return socket.socket(fileno=there[0])


def test_it_hands_over_connections_to_wires(make: Make) -> None:
    home = make("h1", True)
    home.forward([Route(1, server_name("h1"), f"127.0.0.1:{home.port}", listens=False)])
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(20)
        wire.bind("\0psclust/wire/987654321987654321")
        wire.listen()
        # Before the process has read the route, the wire may be one of this host.
        asked = b"1 987654321987654321"
        wait_until(lambda: _has_route(home, asked), what="the route")
        (name, _, _, authority, _), (here,) = _asked(home, asked)
        assert name == server_name("h1")
        assert authority == RUN.certificate.decode()
        other = _handed_over(wire)
        while other.getpeername() != here.getsockname():  # of the questions before
            other.close()
            other = _handed_over(wire)
        with here, other:
            here.sendall(b"by itself")
            assert other.recv(64) == b"by itself"
            assert here.family == socket.AF_INET


@pytest.mark.parametrize("question", [b"1 5", b"2 5", b"", b"garbage", b"1 2 3", b"2 -1"])
def test_what_leads_nowhere_is_not_answered(make: Make, question: bytes) -> None:
    home = make("h1", True)
    home.forward([Route(2, server_name("h1"), f"127.0.0.1:{_free()}", listens=False)])
    assert _asked(home, question) == ([""], [])
    assert _asked(home, b"0 0")[1] == []  # it goes on


def test_a_wire_that_nobody_has_is_refused(make: Make) -> None:
    home = make("h1", True)
    with socket.create_connection(("127.0.0.1", home.port), timeout=20) as stranger:
        stranger.sendall(b"w" + bytes(8))
        assert stranger.recv(1) == b""


def test_it_ends_with_its_owner(make: Make) -> None:
    away = make("h2", False)
    assert len(_processes()) == 1
    away.close()
    wait_until(lambda: not _processes(), what="its end")


def test_one_that_cannot_start_is_tried_again_a_few_times_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began = time.monotonic()
    spoilt = ForwarderProcess(Identity("no key", "nor", "these"), tls_library(), 30.0, "auto")
    try:
        wait_until(lambda: caplog.text.count("is started again") >= 4, what="four more starts")
        assert time.monotonic() - began > 4 * 0.2
    finally:
        spoilt.close()
    wait_until(lambda: not _processes(), what="its end")
