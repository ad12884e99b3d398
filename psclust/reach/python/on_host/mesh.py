"""Whether hosts reach each other on the ports of the cluster's servers: each host listens, and each
dials all others."""

from __future__ import annotations

import errno
import socket
import threading
from typing import Any, BinaryIO

# Open until this process ends.
_listeners: list[socket.socket] = []


def answer(question: dict[str, Any], stream: BinaryIO) -> Any:
    """work listen: on `address`, in each of `ranges` of ports (first, last); returns the free port
    it found in each, or an error.
    work dial: each of `targets` (name, address, port) within `timeout_s`; returns the targets that
    failed, and why.
    `token`: sent by the listeners, to tell them from other servers."""
    token = question["token"].encode()
    if question["work"] == "listen":
        return [_listen(question["address"], low, high, token) for low, high in question["ranges"]]
    return _dial(question["targets"], question["timeout_s"], token)


def _listen(address: str, low: int, high: int, token: bytes) -> dict[str, Any]:
    for port in range(low, high + 1):
        try:
            listener = socket.create_server((address, port), backlog=256)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return {"error": error.strerror}
            continue
        _listeners.append(listener)
        threading.Thread(target=_serve, args=(listener, token), daemon=True).start()
        return {"port": listener.getsockname()[1]}
    return {"error": f"port {low} is taken" if low == high else f"no port of {low}-{high} is free"}


def _serve(listener: socket.socket, token: bytes) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(token)
            except OSError:
                continue


def _dial(
    targets: list[tuple[str, str, int]], timeout_s: float, token: bytes
) -> list[tuple[str, str, int, str]]:
    failed: list[tuple[str, str, int, str]] = []

    def dial(name: str, address: str, port: int) -> None:
        try:
            with socket.create_connection((address, port), timeout_s) as connection:
                received = b""
                while len(received) < len(token) and (data := connection.recv(len(token))):
                    received += data
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
