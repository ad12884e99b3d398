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
from psclust.forward.forwarder_process import ForwarderProcess, Route
from psclust.forward.tls import Credentials
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
            credentials = Credentials.from_json(RUN.forwarder(host).to_json())
            ports = "auto" if has_tasks else None
            made = ForwarderProcess(credentials, tls_library(), 30.0, ports)
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


def test_it_ends_with_its_owner(make: Make) -> None:
    away = make("h2", False)
    assert len(_processes()) == 1
    away.close()
    wait_until(lambda: not _processes(), what="its end")


def test_one_that_cannot_start_is_tried_again_a_few_times_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began = time.monotonic()
    spoilt = ForwarderProcess(Credentials("no key", "", ""), tls_library(), 30.0, "auto")
    try:
        wait_until(lambda: caplog.text.count("is started again") >= 4, what="four more starts")
        assert time.monotonic() - began > 4 * 0.2
    finally:
        spoilt.close()
    wait_until(lambda: not _processes(), what="its end")
