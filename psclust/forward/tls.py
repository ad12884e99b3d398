"""TLS 1.3 between two forwarders, as they use it."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Protocol

NATIVE, PYTHON = "TensorFlow's BoringSSL", "Python's ssl"
LIMIT_S = 10.0
"""For the peer to greet, and to say what it wants."""


def expected_tls(native: str | None, tensorflow: str | None) -> str:
    """What `forwarder.choose_tls` chooses, with a TensorFlow that has all that it needs."""
    return NATIVE if native is not None and tensorflow is not None else PYTHON


@dataclass(frozen=True)
class Identity:
    """The key and certificate of one side of a connection, and the authority that signed the other
    side's; all PEM. Raises ValueError for an empty text, and for one that is not ASCII."""

    key: str
    certificate: str
    authority: str

    def __post_init__(self) -> None:
        texts = (self.key, self.certificate, self.authority)
        if not all(text and text.isascii() for text in texts):
            # With an empty one gRPC ends the process.
            raise ValueError("a key or certificate that is empty, or not PEM")


class Session(Protocol):
    """A greeted connection. Its socket stays the caller's."""

    def read(self, size: int) -> bytes:
        """So many bytes. Raises OSError."""

    def write(self, data: bytes) -> None:
        """Raises OSError."""

    def carry(self, plain: socket.socket) -> None:
        """Carry what comes by `plain` to the peer, and back, until both have ended or one is cut
        off."""

    def close(self) -> None: ...


class Tls(Protocol):
    """How to greet a peer. name: what the result is known by."""

    name: str

    def admits(self, sock: socket.socket) -> bool:
        """Whether a connection of this machine is of this user."""

    def greet(self, sock: socket.socket, peer: str | None) -> Session:
        """peer: the name in the certificate of the side that accepts; None: this side accepts.
        Raises OSError where the peer has no certificate of the authority or another name, or is
        silent."""
