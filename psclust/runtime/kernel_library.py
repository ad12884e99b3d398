"""Locates psclust's own TensorFlow kernels (`psclust/native`), an op library that servers load at
their start and clients with a graph that uses it. They are optional, as `setup.py` says:
`replication/kernels.py` says which graphs use them.

The kernels, and psclust's own wire among them, read data of TensorFlow's: with a build of another
layout they would crash a server. `spec/tensorflow_builds.py` lists the builds that they fit. With
any other, a process of its own finds out once (`kernel_self_test.py`)."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

from psclust.rundir.folder import xdg_folder
from psclust.spec.tensorflow_builds import LIBRARY, build_of, fits, result_file

VARIABLE = "PSCLUST_KERNELS"
"""Set to 0, it keeps a process from loading them."""

_SELF_TEST = os.path.join(os.path.dirname(__file__), "kernel_self_test.py")
_SELF_TEST_S = 120.0
# Where a task listens is not where its test does.
_NOT_FOR_TESTS = ("PSCLUST_BIND", "PSCLUST_PORT", "PSCLUST_PORTS", "LD_PRELOAD")


def kernel_library(folder: str) -> str | None:
    """The path of the library, for the TensorFlow in `folder`; None if it could not be built, is
    not wanted, or does not fit."""
    path = _built() if os.environ.get(VARIABLE) != "0" else None
    return path if path and _fit(folder, path) else None


def are_known_not_to_fit(folder: str) -> bool:
    """Whether they do not fit the TensorFlow in `folder`, as far as that was tested."""
    return fits(folder, _cache()) is False


def python_ops() -> Any:
    """The module of their ops, loaded into this interpreter's TensorFlow; None if there are none
    for it."""
    import tensorflow as tf

    path = kernel_library(tf.sysconfig.get_lib())
    try:
        found = tf.load_op_library(path) if path else None
    except (tf.errors.OpError, RuntimeError):  # of another architecture, or refused by the linker
        return None
    return found if hasattr(found, "psclust_encode") else None


def _built() -> str | None:
    start = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "_kernels")
    return next(
        (start + suffix for suffix in EXTENSION_SUFFIXES if os.path.exists(start + suffix)), None
    )


def _cache() -> str:
    home = xdg_folder(os.environ, "XDG_CACHE_HOME")
    return os.path.join(home or os.path.expanduser("~/.cache"), "psclust")


def _fit(folder: str, kernels: str) -> bool:
    known = fits(folder, _cache())
    return known if known is not None else _tested(folder, kernels)


def _tested(folder: str, kernels: str) -> bool:
    """Tests, and keeps the result; of several processes one does. Where it cannot be kept, they are
    taken not to fit."""
    build = build_of(os.path.join(folder, LIBRARY))
    if build is None:
        return False
    result = result_file(build, _cache())
    try:
        os.makedirs(os.path.dirname(result), mode=0o700, exist_ok=True)
        with open(f"{result}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = fits(folder, _cache())
            if known is not None:
                return known
            with open(f"{result}.new", "w", encoding="ascii") as file:
                file.write("yes" if _passes(folder, kernels) else "no")
            os.replace(f"{result}.new", result)
    except OSError:
        return False
    return fits(folder, _cache()) is True


def _passes(folder: str, kernels: str) -> bool:
    env = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_TESTS}
    try:
        return (
            subprocess.run(
                [sys.executable, _SELF_TEST, kernels, folder],
                env={**env, "CUDA_VISIBLE_DEVICES": ""},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_SELF_TEST_S,
                check=False,
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False
