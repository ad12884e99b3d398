"""How doctor measures the links between hosts: by table, and by a connection of this machine to
itself."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from psclust.errors import HostError
from psclust.reach.doctor.network_examination import examine_network, measuring_rounds
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
    ("arrivals", "round_trip_s", "gbit"),
    [
        # All at once; at an even speed; after a slow start.
        ([(1.0, 0), (1.5, 500_000_000)], 0.0, 8.0),
        ([(0.0, 0), (0.25, 250), (0.5, 500), (1.0, 1000)], 0.0, 8e-6),
        ([(0.0, 0), (0.9, 50), (1.0, 125), (1.375, 500), (1.875, 1000)], 0.15, 8e-6),
        # 250 bytes pass at once, then 750 in a second.
        ([(0.0, 0), (0.0, 250), (1.0, 1000)], 0.0, 6e-6),
        # At an even speed, but nobody looked for a time, and then at once.
        ([(0.0, 0), (0.25, 250), (0.75, 300), (0.75, 500), (0.75, 750), (1.0, 1000)], 0.0, 8e-6),
        ([(0.0, 0), (1.0, 250), (1.0, 500), (1.0, 1000)], 0.001, 8e-6 / 0.992),
    ],
)
def test_a_slow_start_and_pauses_do_not_count(
    arrivals: list[tuple[float, int]], round_trip_s: float, gbit: float
) -> None:
    assert mesh.speed(arrivals, round_trip_s) == pytest.approx(gbit)


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


class Here:
    """Stands where the Python of a host does; all hosts are this process."""

    def ask(self, module: str, question: dict[str, Any]) -> Any:
        assert module == "mesh"
        try:
            return mesh.answer(question, io.BytesIO())
        except OSError as error:
            raise HostError(f"b: {error}.") from None


class WithoutMeasures(Here):
    def ask(self, module: str, question: dict[str, Any]) -> Any:
        if question["work"] == "measure":
            raise HostError("b: no data arrives.")
        return super().ask(module, question)


def test_hosts_measure_their_links_in_order_and_one_that_cannot_is_named() -> None:
    pythons: Any = {"a": Here(), "b": WithoutMeasures(), "c": Here()}
    addresses = dict.fromkeys(pythons, "127.0.0.1")
    found, links = examine_network(pythons, addresses, [(0, 0), (0, 0)])
    assert [link.hosts for link in links] == [("a", "b"), ("a", "c")]
    assert [(one.host, one.level) for one in found] == [
        ("a", "ok"),
        ("b", "ok"),
        ("c", "ok"),
        ("b", "note"),
    ]
    assert found[-1].text == "reaches c, but the link could not be measured (no data arrives)"


def test_a_host_that_is_not_reached_is_not_measured() -> None:
    pythons: Any = {"a": Here(), "b": Here()}
    # Nothing listens on the second address: b's listener says why, and nobody dials it.
    found, links = examine_network(pythons, {"a": "127.0.0.1", "b": "192.0.2.1"}, [(0, 0)])
    assert links == []
    assert [(one.host, one.level) for one in found] == [("b", "problem"), ("a", "ok")]


def test_another_server_is_not_measured() -> None:
    port = listener()
    with pytest.raises(OSError, match="another server answers there"):
        ask(work="measure", address="127.0.0.1", port=port, timeout_s=5.0, token="another")
