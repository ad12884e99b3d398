"""Locates psclust's own TensorFlow kernels (`psclust/native`), an op library that servers load at
their start and clients with a graph that uses it. They are optional, as `setup.py` says:
`replication/kernels.py` says which graphs use them.

psclust's own wire among them reads data of TensorFlow's: with a build of another layout it would
crash a server. `spec/tensorflow_builds.py` lists the builds that are known. Whether the kernels fit
any other, and with which layout the wire does, processes of their own find out once
(`kernel_self_test.py`)."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

from psclust.rundir.folder import xdg_folder
from psclust.spec.tensorflow_builds import (
    FITS,
    LIBRARY,
    NOTHING,
    Fit,
    Layout,
    build_of,
    known_fit,
    result_file,
)

VARIABLE = "PSCLUST_KERNELS"
"""Set to 0, it keeps a process from loading them."""

LAYOUT_VARIABLE = "PSCLUST_LAYOUT"
"""What the library reads while it is loaded: without it, it has no wire."""

_SELF_TEST = os.path.join(os.path.dirname(__file__), "kernel_self_test.py")
SELF_TESTS_S = 30.0
"""For all tests of a build: servers that wait for them have `deadlines.start`."""
# Where a task listens is not where its test does.
_NOT_FOR_TESTS = (
    "PSCLUST_BIND",
    "PSCLUST_PORT",
    "PSCLUST_PORTS",
    "PSCLUST_FORWARDER",
    "LD_PRELOAD",
    LAYOUT_VARIABLE,
)


@contextmanager
def kernels_to_load(folder: str) -> Iterator[str | None]:
    """The path of the library, to be loaded inside, for the TensorFlow in `folder`; None if it
    could not be built, is not wanted, or does not fit."""
    path = wanted()
    fit = _fit(folder, path) if path else NOTHING
    before = os.environ.pop(LAYOUT_VARIABLE, None)
    os.environ.update(_layout_variable(fit.layout))
    try:
        yield path if fit.kernels else None
    finally:
        os.environ.pop(LAYOUT_VARIABLE, None)
        if before is not None:
            os.environ[LAYOUT_VARIABLE] = before


def wanted() -> str | None:
    """The path of the library; None if it could not be built, or is not wanted."""
    if os.environ.get(VARIABLE) == "0":
        return None
    start = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "_kernels")
    return next(
        (start + suffix for suffix in EXTENSION_SUFFIXES if os.path.exists(start + suffix)), None
    )


def fit_if_known(folder: str) -> Fit | None:
    """What fits the TensorFlow in `folder`, as far as that was tested."""
    return known_fit(folder, _cache())


def python_ops() -> Any:
    """The module of their ops, loaded into this interpreter's TensorFlow; None if there are none
    for it. The ops of the wire are in it if that fits, too (`has_wire`)."""
    import tensorflow as tf

    with kernels_to_load(tf.sysconfig.get_lib()) as path:
        try:
            found = tf.load_op_library(path) if path else None
        except (tf.errors.OpError, RuntimeError):  # of another architecture, or the linker refuses
            return None
    return found if hasattr(found, "psclust_encode") else None


def has_wire(ops: Any) -> bool:
    """Whether psclust's own wire is among the ops."""
    return hasattr(ops, "psclust_listen")


def _layout_variable(layout: Layout | None) -> dict[str, str]:
    return {LAYOUT_VARIABLE: str(layout)} if layout else {}


def _cache() -> str:
    home = xdg_folder(os.environ, "XDG_CACHE_HOME")
    return os.path.join(home or os.path.expanduser("~/.cache"), "psclust")


def _fit(folder: str, kernels: str) -> Fit:
    return fit_if_known(folder) or _tested(folder, kernels)


def _tested(folder: str, kernels: str) -> Fit:
    """Tests, and keeps the result; of several processes one does. Where it cannot be kept, or a
    busy machine takes too long, they are taken not to fit for now."""
    due = time.monotonic() + SELF_TESTS_S
    build = build_of(os.path.join(folder, LIBRARY))
    if build is None:
        return NOTHING
    result = result_file(build, _cache())
    try:
        os.makedirs(os.path.dirname(result), mode=0o700, exist_ok=True)
        with open(f"{result}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (known := fit_if_known(folder)) is not None:
                return known
            fit = next(fit for fit in FITS if not fit.kernels or _passes(fit, folder, kernels, due))
            with open(f"{result}.new", "w", encoding="ascii") as file:
                file.write(str(fit))
            os.replace(f"{result}.new", result)
    except (OSError, subprocess.TimeoutExpired):
        return NOTHING
    return fit_if_known(folder) or NOTHING


def _passes(fit: Fit, folder: str, kernels: str, due: float) -> bool:
    env = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_TESTS}
    return (
        subprocess.run(
            [sys.executable, _SELF_TEST, kernels, folder],
            env={**env, **_layout_variable(fit.layout), "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=max(0.0, due - time.monotonic()),
            check=False,
        ).returncode
        == 0
    )
