"""TLS by C, with the BoringSSL of TensorFlow's library, or by Python's `ssl`, which is slower."""

from __future__ import annotations

from psclust.forward.native_tls import NativeTls
from psclust.forward.tls import Identity, Tls


def choose_tls(native: str | None, tensorflow: str | None, identity: Identity) -> Tls:
    """By C if there is psclust's library `native`, and TensorFlow's has all that it needs."""
    if native is not None and tensorflow is not None:
        try:
            return NativeTls(native, tensorflow, identity)
        except OSError:
            pass
    from psclust.forward.python_tls import PythonTls

    return PythonTls(identity)
