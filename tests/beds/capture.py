"""What passes on the links between test hosts. Needs root."""

from __future__ import annotations

import socket
import threading
from contextlib import AbstractContextManager

_EVERY_PROTOCOL = 3  # packet(7): ETH_P_ALL
_MOST = 1 << 16


class Capture(AbstractContextManager["Capture"]):
    """Looks for `marker` in each packet of the hosts whose interfaces here begin with `links`.
    seen: how often it was there; bytes: of all packets."""

    def __init__(self, links: str, marker: bytes) -> None:
        self._links, self._marker = links, marker
        self.seen = self.bytes = 0
        self._over = threading.Event()
        self._socket = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL)
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self._socket.settimeout(0.1)
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Capture:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _look(self) -> None:
        while not self._over.is_set():
            try:
                packet, (interface, *_) = self._socket.recvfrom(_MOST)
            except TimeoutError:
                continue
            if interface.startswith(self._links):
                self.bytes += len(packet)
                self.seen += packet.count(self._marker)
