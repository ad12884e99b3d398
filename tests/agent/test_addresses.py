"""The addresses of this machine, as psutil reads them by another system call."""

from __future__ import annotations

import socket

import psutil

from psclust.agent.addresses import own_addresses


def test_every_ipv4_address_is_found_except_loopback_ones() -> None:
    expected: dict[str, list[str]] = {}
    for name, entries in psutil.net_if_addrs().items():
        for entry in entries:
            if entry.family == socket.AF_INET and not entry.address.startswith("127."):
                expected.setdefault(name, []).append(entry.address)
    assert own_addresses() == expected
