"""TLS by native/tls.c and carry.c. ctypes lets go of Python's lock while C works."""

from __future__ import annotations

import ctypes
import os
import socket
from typing import Any

from psclust.forward.tls import LIMIT_S, NATIVE, Identity

_LIMIT_MS = int(LIMIT_S * 1000)


class NativeTls:
    """native: the path of psclust's library; tensorflow: of TensorFlow's. Raises OSError where they
    do not fit."""

    name = NATIVE

    def __init__(self, native: str, tensorflow: str, identity: Identity) -> None:
        self._c = ctypes.CDLL(native)
        _declare(self._c)
        missing = self._c.tls_load(ctypes.CDLL(tensorflow, os.RTLD_LAZY)._handle)
        if missing:
            raise OSError(f"{tensorflow} has no {missing.decode()}")
        self._context = self._c.tls_context(
            identity.key.encode(),
            identity.certificate.encode(),
            identity.authority.encode(),
        )
        if not self._context:
            raise OSError("it does not take these certificates")

    def admits(self, sock: socket.socket) -> bool:
        return bool(self._c.tls_admits(sock.fileno()))

    def greet(self, sock: socket.socket, peer: str | None) -> NativeSession:
        name = peer.encode() if peer is not None else None
        session = self._c.tls_open(self._context, sock.fileno(), name, _LIMIT_MS)
        if not session:
            raise OSError("no certificate of this run, or no answer")
        return NativeSession(self._c, session, sock.fileno())


class NativeSession:
    def __init__(self, c: Any, session: int, descriptor: int) -> None:
        self._c, self._session, self._descriptor = c, session, descriptor

    def read(self, size: int) -> bytes:
        room = ctypes.create_string_buffer(size)
        if not self._c.tls_read(self._session, room, size, _LIMIT_MS):
            raise OSError("the peer is gone, or silent")
        return room.raw

    def write(self, data: bytes) -> None:
        if not self._c.tls_write(self._session, data, len(data), _LIMIT_MS):
            raise OSError("the peer is gone")

    def carry(self, plain: socket.socket) -> None:
        self._c.tls_carry(self._session, self._descriptor, plain.fileno())

    def close(self) -> None:
        self._c.tls_free(self._session)


def _declare(c: Any) -> None:
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    size = ctypes.c_size_t
    for name, returned, *taken in (
        ("tls_load", text, pointer),
        ("tls_context", pointer, text, text, text),
        ("tls_open", pointer, pointer, number, text, number),
        ("tls_read", number, pointer, text, size, number),
        ("tls_write", number, pointer, text, size, number),
        ("tls_carry", number, pointer, number, number),
        ("tls_admits", number, number),
        ("tls_free", None, pointer),
    ):
        function = getattr(c, name)
        function.restype, function.argtypes = returned, taken
