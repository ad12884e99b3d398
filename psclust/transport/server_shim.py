"""Locates the server shim, the library that keeps TensorFlow's servers on one interface, detects
lost peers and makes servers small."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import psclust


def server_shim() -> str | None:
    """Its path; None if it could not be built."""
    folder = Path(psclust.__file__).parent / "native"
    return next(
        (
            str(path)
            for suffix in EXTENSION_SUFFIXES
            if (path := folder / f"_server_shim{suffix}").exists()
        ),
        None,
    )
