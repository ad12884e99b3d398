"""A port of this machine, each of whose connections something carries elsewhere."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress


class CarriedTunnel(ABC):
    """Leads to an address as a host sees it, and outlives lost connections; accepts from its
    `__init__` on."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="tunnel", daemon=True).start()

    @property
    def address(self) -> str:
        """`127.0.0.1:port`."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        with suppress(OSError):  # it wakes the thread that accepts
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(client,), name="tunnel-client", daemon=True
                ).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            self._carry(client)

    @abstractmethod
    def _carry(self, client: socket.socket) -> None:
        """Carry a connection until either end closes it, on a thread of its own. Raises OSError."""
