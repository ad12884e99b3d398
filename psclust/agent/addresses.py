"""The addresses of this host, and its network."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
from pathlib import Path

_SIOCGIFCONF = 0x8912  # netdevice(7): all IPv4 addresses, each as a struct ifreq
_IFREQ = struct.Struct("16s2xH4s16x")  # name; of the struct sockaddr_in the port and the address
_MOST = 1024


def every_own_address() -> list[str]:
    """Of all interfaces, as `own_addresses`, sorted."""
    return sorted(address for addresses in own_addresses().values() for address in addresses)


def own_addresses() -> dict[str, list[str]]:
    """Interface -> its IPv4 addresses, without loopback addresses (127.0.0.0/8)."""
    buffer = array.array("B", bytes(_MOST * _IFREQ.size))
    place, length = buffer.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        reply = fcntl.ioctl(sock, _SIOCGIFCONF, struct.pack("iP", length, place))
    found: dict[str, list[str]] = {}
    for name, _, address in _IFREQ.iter_unpack(buffer.tobytes()[: struct.unpack("iP", reply)[0]]):
        if not address.startswith(b"\x7f"):
            found.setdefault(name.rstrip(b"\0").decode(), []).append(socket.inet_ntoa(address))
    return found


def network() -> str:
    """The same for all processes that have the same 127.0.0.1: the machine as it has booted, and
    the namespace in it."""
    machine = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{machine}:{os.stat('/proc/self/ns/net').st_ino}"
