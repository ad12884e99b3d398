"""Whether hosts reach each other on the ports of the cluster's servers, and how fast: each host
listens, each dials all others, and some measure their link to another."""

from __future__ import annotations

import errno
import socket
import threading
import time
from contextlib import suppress
from typing import Any, BinaryIO

# Requests to a listener, a byte each: send it back; send _DATA_BYTES.
_ECHO, _DATA = b"e", b"d"
_DATA_BYTES = 4_000_000
_START_ROUND_TRIPS = 8  # until TCP has doubled its first 10 packets to that, at most
_TRANSFERS = 2  # of which the faster one counts: a lost packet may have cost the other 0.2 s
_ECHOES = 9
_ECHO_SHARE = 0.2  # of the time for a link, at most; one echo is always awaited
_CHUNK_BYTES = 1 << 18
_QUIET_S = 5.0  # after which a listener no longer waits for a request

# Open until this process ends.
_listeners: list[socket.socket] = []


def answer(question: dict[str, Any], stream: BinaryIO) -> Any:
    """work listen: on `address`, in each of `ranges` of ports (first, last); returns the free port
    it found in each, or an error.
    work dial: each of `targets` (name, address, port) within `timeout_s`; returns the targets that
    failed, and why.
    work measure: the link to the listener at `address` and `port`, for `timeout_s` at most; returns
    its `gbit`, as data comes from there, and its `round_trip_s`.
    `token`: sent by the listeners, to tell them from other servers."""
    token = question["token"].encode()
    if question["work"] == "listen":
        return [_listen(question["address"], low, high, token) for low, high in question["ranges"]]
    if question["work"] == "dial":
        return _dial(question["targets"], question["timeout_s"], token)
    return _measure(question["address"], question["port"], question["timeout_s"], token)


def _listen(address: str, low: int, high: int, token: bytes) -> dict[str, Any]:
    for port in range(low, high + 1):
        try:
            listener = socket.create_server((address, port), backlog=256)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return {"error": error.strerror}
            continue
        _listeners.append(listener)
        threading.Thread(target=_accept, args=(listener, token), daemon=True).start()
        return {"port": listener.getsockname()[1]}
    return {"error": f"port {low} is taken" if low == high else f"no port of {low}-{high} is free"}


def _accept(listener: socket.socket, token: bytes) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection, token), daemon=True).start()


def _serve(connection: socket.socket, token: bytes) -> None:
    with connection, suppress(OSError):
        connection.settimeout(_QUIET_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(token)
        while (request := connection.recv(1)) in (_ECHO, _DATA):
            connection.sendall(request if request == _ECHO else bytes(_DATA_BYTES))


def _dial(
    targets: list[tuple[str, str, int]], timeout_s: float, token: bytes
) -> list[tuple[str, str, int, str]]:
    failed: list[tuple[str, str, int, str]] = []

    def dial(name: str, address: str, port: int) -> None:
        try:
            with socket.create_connection((address, port), timeout_s) as connection:
                received = _received(connection, len(token))
        except OSError as error:
            failed.append(
                (
                    name,
                    address,
                    port,
                    "no answer" if isinstance(error, TimeoutError) else str(error.strerror).lower(),
                )
            )
            return
        if received != token:
            failed.append((name, address, port, "another server answers there"))

    threads = [threading.Thread(target=dial, args=tuple(target), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(failed)


def _received(connection: socket.socket, count: int) -> bytes:
    """Fewer bytes than `count` if the other end closes the connection."""
    received = b""
    while len(received) < count and (data := connection.recv(count - len(received))):
        received += data
    return received


def _measure(address: str, port: int, timeout_s: float, token: bytes) -> dict[str, float]:
    began = time.monotonic()
    with socket.create_connection((address, port), timeout_s) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if _received(connection, len(token)) != token:
            raise OSError("another server answers there")
        round_trip_s = _round_trip(connection, began + _ECHO_SHARE * timeout_s)
        transfers = [_arrivals(connection, began + timeout_s) for _ in range(_TRANSFERS)]
    speeds = [speed(arrivals, round_trip_s) for arrivals in transfers if len(arrivals) > 1]
    if not speeds:
        raise TimeoutError("no data arrives")
    return {"gbit": max(speeds), "round_trip_s": round_trip_s}


def _round_trip(connection: socket.socket, deadline: float) -> float:
    """Seconds; the median of several."""
    times: list[float] = []
    while not times or (len(times) < _ECHOES and time.monotonic() < deadline):
        began = time.monotonic()
        connection.sendall(_ECHO)
        if connection.recv(1) != _ECHO:
            raise ConnectionResetError("the connection was closed")
        times.append(time.monotonic() - began)
    return sorted(times)[len(times) // 2]


def _arrivals(connection: socket.socket, deadline: float) -> list[tuple[float, int]]:
    """When how many bytes had come, from the start of the transfer to its end or `deadline`."""
    connection.sendall(_DATA)
    found, total = [(time.monotonic(), 0)], 0
    buffer = bytearray(_CHUNK_BYTES)
    while total < _DATA_BYTES and (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            count = connection.recv_into(buffer)
        except TimeoutError:
            break
        if not count:
            break
        total += count
        found.append((time.monotonic(), total))
    return found


def speed(arrivals: list[tuple[float, int]], round_trip_s: float) -> float:
    """In Gbit/s; the lowest of several estimates. Leaves the first eighth out: TCP starts slowly,
    and what limits a link may let some bytes pass at once. But what came while this process had to
    wait for a CPU is read faster than the link brings it."""
    (began, _), (end, total) = arrivals[0], arrivals[-1]
    estimates = [
        (total - count) / (end - when)
        for when, count in arrivals
        if total <= 8 * count <= 4 * total and when < end
    ]
    at_full_speed_s = end - began - _START_ROUND_TRIPS * round_trip_s
    if at_full_speed_s > 0:
        estimates.append(total / at_full_speed_s)
    return 8e-9 * min(estimates or [total / (end - began)])
