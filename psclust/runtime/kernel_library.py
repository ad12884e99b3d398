"""Locates psclust's own TensorFlow kernels (`psclust/native`), an op library that servers load at
their start and clients with a graph that uses it. They are optional, as `setup.py` says:
`replication/kernels.py` says which graphs use them."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

VARIABLE = "PSCLUST_KERNELS"
"""Set to 0, it keeps a process from loading them."""

TENSORFLOW = "2.21"
"""The kernels, and psclust's own wire among them, read data of TensorFlow's whose layout is that of
this version; with another they would crash a server."""


def fits(version: str) -> bool:
    """Whether they are for this version of TensorFlow (`2.21.0`)."""
    return version.split(".")[:2] == TENSORFLOW.split(".")


def kernel_library(version: str) -> str | None:
    """The path of the library for this version of TensorFlow; None if it could not be built, is not
    wanted, or is for another version."""
    if os.environ.get(VARIABLE) == "0" or not fits(version):
        return None
    start = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "_kernels")
    return next(
        (start + suffix for suffix in EXTENSION_SUFFIXES if os.path.exists(start + suffix)), None
    )


def python_ops() -> Any:
    """The module of their ops, loaded into this interpreter's TensorFlow; None if there are none
    for it."""
    import tensorflow as tf

    path = kernel_library(tf.__version__)
    try:
        found = tf.load_op_library(path) if path else None
    except (tf.errors.OpError, RuntimeError):  # of another architecture, or refused by the linker
        return None
    return found if hasattr(found, "psclust_encode") else None
