"""A name server like that of a Kubernetes cluster, with the names of pods, whose addresses may
change."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import AbstractContextManager

DOMAIN = "default.svc.cluster.local"
_A, _IN = 1, 1
_NO_SUCH_NAME = 3
_TTL_S = 5


class NamesServer(AbstractContextManager["NamesServer"]):
    """Answers on UDP port 53 of `address`. `pods`: host name, such as `d-ps-0-0.d`, to IPv4
    address; change it at any time."""

    def __init__(self, address: str) -> None:
        self.pods: dict[str, str] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        self._thread = threading.Thread(target=self._serve)
        self._address = address

    def resolv_conf(self) -> str:
        """As kubelet writes it."""
        return (
            f"nameserver {self._address}\n"
            f"search {DOMAIN} svc.cluster.local cluster.local\noptions ndots:5\n"
        )

    def __enter__(self) -> NamesServer:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (self._address, 53))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, asker = self._socket.recvfrom(4096)
            if not query:
                return
            self._socket.sendto(self._answer(query), asker)

    def _answer(self, query: bytes) -> bytes:
        """RFC 1035: header, the question repeated, and for a name that is known an address."""
        name, end = _question(query)
        kind = struct.unpack(">H", query[end : end + 2])[0]
        question = query[12 : end + 4]
        address = (
            self.pods.get(name.removesuffix(f".{DOMAIN}")) if name.endswith(f".{DOMAIN}") else None
        )
        code = _NO_SUCH_NAME if address is None else 0
        records = 1 if address is not None and kind == _A else 0
        header = query[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, records, 0, 0)
        if not records or address is None:
            return header + question
        return (
            header
            + question
            + struct.pack(">HHHIH", 0xC00C, _A, _IN, _TTL_S, 4)
            + socket.inet_aton(address)
        )


def _question(query: bytes) -> tuple[str, int]:
    """The name that is asked for, and where it ends."""
    parts, at = [], 12
    while length := query[at]:
        parts.append(query[at + 1 : at + 1 + length].decode().lower())
        at += 1 + length
    return ".".join(parts), at + 1
