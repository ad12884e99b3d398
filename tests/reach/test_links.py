"""How doctor measures the links between hosts: by table, and by a connection of this machine to
itself."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from psclust.reach.doctor.network_examination import measuring_rounds
from psclust.reach.python.on_host import mesh

TOKEN = "0123456789abcdef"


def ask(**question: Any) -> Any:
    return mesh.answer({"token": TOKEN, **question}, io.BytesIO())


def listener() -> int:
    """The port of a new one."""
    (found,) = ask(work="listen", address="127.0.0.1", ranges=[[0, 0]])
    port = found["port"]
    assert isinstance(port, int)
    return port


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("", []),
        ("a", []),
        ("ab", ["ab"]),
        ("abc", ["ab", "ac", "bc"]),
        ("abcd", ["ab cd", "ac bd", "ad bc"]),
        ("abcde", ["ab cd", "bc de", "ea"]),
        ("abcdef", ["ab cd ef", "bc de fa"]),
    ],
)
def test_no_host_is_in_two_measurements_at_once(hosts: str, expected: list[str]) -> None:
    rounds = measuring_rounds(list(hosts))
    assert [" ".join("".join(pair) for pair in pairs) for pairs in rounds] == expected


def test_of_many_hosts_each_is_measured_twice_in_two_rounds() -> None:
    hosts = [f"h{number}" for number in range(1000)]
    rounds = measuring_rounds(hosts)
    assert len(rounds) == 2
    for pairs in rounds:
        assert sorted(host for pair in pairs for host in pair) == sorted(hosts)


@pytest.mark.parametrize(
    ("arrivals", "gbit"),
    [
        # All at once, at an even speed, and after a slow start.
        ([(1.0, 0), (1.5, 500_000_000)], 8.0),
        ([(0.0, 0), (0.25, 250), (0.5, 500), (1.0, 1000)], 8e-6),
        ([(0.0, 0), (0.9, 100), (1.0, 250), (1.25, 500), (1.75, 1000)], 8e-6),
        # What may pass at once, and then 750 bytes a second.
        ([(0.0, 0), (0.0, 250), (1.0, 1000)], 6e-6),
    ],
)
def test_the_start_of_a_transfer_does_not_count(
    arrivals: list[tuple[float, int]], gbit: float
) -> None:
    assert mesh.speed(arrivals) == pytest.approx(gbit)


def test_a_link_is_measured() -> None:
    found = ask(work="measure", address="127.0.0.1", port=listener(), timeout_s=5.0)
    assert found["gbit"] > 0.01
    assert 0 < found["round_trip_s"] < 1


def test_who_asks_for_nothing_gets_the_token() -> None:
    port = listener()
    assert ask(work="dial", targets=[["a", "127.0.0.1", port]], timeout_s=5.0) == []
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        assert connection.recv(100) == TOKEN.encode()
        connection.sendall(b"GET / HTTP/1.1\r\n")
        with suppress(ConnectionResetError):
            assert connection.recv(100) == b""


@pytest.fixture
def silent() -> Iterator[tuple[socket.socket, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, server.getsockname()[1]


def test_a_link_on_which_nothing_comes_is_not_measured(silent: tuple[socket.socket, int]) -> None:
    with pytest.raises(TimeoutError):
        ask(work="measure", address="127.0.0.1", port=silent[1], timeout_s=0.1)


def test_another_server_is_not_measured() -> None:
    port = listener()
    with pytest.raises(OSError, match="another server answers there"):
        ask(work="measure", address="127.0.0.1", port=port, timeout_s=5.0, token="another")
