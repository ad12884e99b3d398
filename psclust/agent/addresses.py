"""The addresses that a host has itself."""

from __future__ import annotations

import socket

import psutil


def own_addresses() -> dict[str, list[str]]:
    """interface -> its IPv4 addresses, those of this machine alone (127.0.0.0/8) left out."""
    found = {
        name: [entry.address for entry in entries if entry.family == socket.AF_INET and not entry.address.startswith("127.")]
        for name, entries in psutil.net_if_addrs().items()
    }
    return {name: addresses for name, addresses in found.items() if addresses}
