"""Ports that are reserved are really ours: nobody else gets them, and TensorFlow's server does."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from psclust.errors import PortBusyError, StartError
from psclust.plan.port_request import PortRequest, extra_port
from psclust.spec.cluster import Task
from psclust.transport.ports import PortReservations

pytestmark = pytest.mark.process

A, B = Task("worker", 0), Task("worker", 1)


@pytest.fixture
def ports() -> Iterator[PortReservations]:
    reservations = PortReservations()
    yield reservations
    reservations.close()


def request(task: Task, wanted: str = "auto") -> PortRequest:
    return PortRequest(task, "127.0.0.1", wanted)


def test_a_reserved_port_is_refused_to_others_and_given_to_the_server(
    ports: PortReservations,
) -> None:
    port = ports.reserve([request(A)])[A]
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", port))
    with (
        socket.create_server(("127.0.0.1", port), reuse_port=True) as server,
        socket.create_connection(("127.0.0.1", port)),
    ):
        assert server.accept()


def test_without_the_shim_a_server_that_does_not_share_gets_the_reserved_port_too() -> None:
    with closing(PortReservations(shim=False)) as ports:
        port = ports.reserve([request(A)])[A]
        with pytest.raises(PortBusyError), closing(PortReservations(shim=False)) as other:
            other.reserve([request(B, str(port))])
        with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port), reuse_port=True)


def test_nothing_answers_on_a_reserved_port(ports: PortReservations) -> None:
    port = ports.reserve([request(A)])[A]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_second_reservation_of_a_fixed_port_is_refused_although_it_is_shareable(
    ports: PortReservations,
) -> None:
    port = ports.reserve([request(A)])[A]
    other = PortReservations()
    with pytest.raises(PortBusyError):
        other.reserve([request(B, str(port))])


def test_a_listener_that_would_share_its_port_is_found_and_named(ports: PortReservations) -> None:
    gaps = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as server:
        port = server.getsockname()[1]
        # What lists the files of this process gets a lower number than the socket, and is gone when
        # it is looked at.
        for gap in gaps:
            os.close(gap)
        with pytest.raises(
            PortBusyError,
            match=rf"worker:0: 127\.0\.0\.1:{port} is already in use by .*\(pid {os.getpid()}\)",
        ):
            ports.reserve([request(A, str(port))])


def test_all_or_none(ports: PortReservations) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        busy = server.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as probe:
            free = probe.getsockname()[1]
        with pytest.raises(PortBusyError):
            ports.reserve([request(A, str(free)), request(B, str(busy))])
    socket.create_server(("127.0.0.1", free)).close()


def test_a_range_without_a_free_port_says_what_to_do(ports: PortReservations) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(StartError, match=f"no port of {port}-{port} is free|already in use"):
            ports.reserve([request(A, f"{port}-{port}")])


def test_an_address_of_another_machine_is_refused(ports: PortReservations) -> None:
    with pytest.raises(StartError, match=r"cannot use the address 192\.0\.2\.1"):
        ports.reserve([PortRequest(A, "192.0.2.1", "auto")])


def test_a_task_keeps_its_port_when_it_is_asked_for_again(ports: PortReservations) -> None:
    first = ports.reserve([request(A)])
    assert ports.reserve([request(A)]) == first


def test_a_port_is_free_again_once_they_are_closed(ports: PortReservations) -> None:
    port = ports.reserve([request(A)])[A]
    ports.close()
    socket.create_server(("127.0.0.1", port)).close()


def test_an_extra_port_is_taken_by_any_server_and_by_no_other_run(ports: PortReservations) -> None:
    extra = extra_port(A)
    found = ports.reserve([request(A), request(extra)])
    assert found[A] != found[extra]
    with (
        pytest.raises(PortBusyError, match=r"\{free_port\} of worker:1: .*in use"),
        closing(PortReservations()) as other,
    ):
        other.reserve([request(extra_port(B), str(found[extra]))])
    with (
        socket.create_server(("127.0.0.1", found[extra])),
        socket.create_connection(("127.0.0.1", found[extra])),
    ):
        pass
    assert ports.reserve([request(extra)]) == {extra: found[extra]}
