"""Tunnels whose SSH connection is lost."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from psclust.reach.ssh.tunnel import SshTunnel
from psclust.spec.cluster import Host
from psclust.testing.wait import PATIENCE_S, wait_until


class LostChannel:
    """A channel whose connection was lost after it had been opened: paramiko raises EOFError for
    every message."""

    lock = threading.Lock()

    def recv(self, size: int) -> bytes:
        return b""

    def _send_eof(self) -> None:
        raise EOFError

    sendall = close = lambda self, *arguments: self._send_eof()


class LostTunnel(SshTunnel):
    def _transport(self) -> Any:
        return self

    def open_channel(self, *arguments: Any, **options: Any) -> LostChannel:
        return LostChannel()


def test_a_lost_connection_closes_its_clients_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[object] = []
    before = set(threading.enumerate())
    monkeypatch.setattr(threading, "excepthook", raised.append)
    tunnel = LostTunnel(Host("h1"), ("127.0.0.1", 1))
    port = int(tunnel.address.partition(":")[2])
    for words in (b"", b"more than nothing"):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            client.sendall(words)
            assert client.recv(1) == b""
    tunnel.close()
    wait_until(lambda: set(threading.enumerate()) <= before, what="the end of all threads")
    assert raised == []
