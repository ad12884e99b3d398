"""Locates psclust's own TensorFlow kernels, `kernels.c`, an op library that servers load at their
start and clients with a graph that uses it. They are optional, as `setup.py` says:
`replication/kernels.py` says which graphs use them."""

from __future__ import annotations

import ctypes
import os
from functools import cache
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
    start = os.path.join(os.path.dirname(__file__), "_kernels")
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


def await_parts(number: int, count: int, timeout_s: float) -> int:
    """How many parts of runs of the graph `number` the sessions of this process have begun, in this
    task and in others, since this task's are in order (`runs_in_order.c`); waits for up to
    `timeout_s` seconds until they are `count`. For a process with psclust's kernels."""
    return int(_await_parts()(number, count, int(1000 * timeout_s)))


@cache
def _await_parts() -> Any:
    function = ctypes.CDLL(kernel_library(TENSORFLOW)).psclust_await_parts
    function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_int64] * 3
    return function
