"""What servers answer to callers who may not belong to their run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from beds.hosts import BedHost

NOBODY = 65534

# As user $1: what each address $2... answers to a client of gRPC, in hexadecimal.
_CALL = r"""
import os, socket, sys
os.setuid(int(sys.argv[1]))
for address in sys.argv[2:]:
    host, port = address.split(":")
    heard = b""
    with socket.socket() as s:
        s.settimeout(20)
        s.connect((host, int(port)))
        try:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            heard = s.recv(100)
        except ConnectionError:
            pass
    print("heard", heard.hex())
"""


def heard(addresses: Sequence[str], *, user: int = 0, at: BedHost | None = None) -> list[str]:
    """What the addresses answer to a process of `user`, on this machine or on a host."""
    argv = [sys.executable, "-S", "-c", _CALL, str(user), *addresses]
    said = subprocess.run(
        at.command(*argv) if at else argv, check=True, capture_output=True, text=True, timeout=120
    ).stdout
    return [line.removeprefix("heard").strip() for line in said.splitlines()]


def listening(host: BedHost) -> list[str]:
    """The addresses at which processes of the host, sshd aside, listen for other machines."""
    rows = [
        line.split() for line in host.run("cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines()
    ]
    found = [row[1].split(":") for row in rows if row[3:4] == ["0A"]]
    ports = {int(port, 16) for address, port in found if not address.endswith("0100007F")}
    return [f"{host.address}:{port}" for port in sorted(ports - {22})]
