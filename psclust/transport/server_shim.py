"""Locates psclust's shared libraries for hosts."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import psclust


def server_shim() -> str | None:
    """The library that keeps TensorFlow's servers on one interface, detects lost peers and makes
    servers small: its path; None if it could not be built."""
    return _library("_server_shim")


def tls_library() -> str | None:
    """The one that forwarders use (`psclust.forward`)."""
    return _library("_tls")


def _library(name: str) -> str | None:
    folder = Path(psclust.__file__).parent / "native"
    return next(
        (
            str(path)
            for suffix in EXTENSION_SUFFIXES
            if (path := folder / f"{name}{suffix}").exists()
        ),
        None,
    )
