"""Builds of TensorFlow that psclust's C was verified with (`native/README.md`): what it uses of
TensorFlow without a C interface is where it expects it.

TensorFlow's libraries have no build id. Here a build is the hash of its library's ELF header and
table of sections, which has the size and place of each of 36: another compilation has others.

`psclust doctor` has hosts run this file, so it imports nothing of psclust."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

LIBRARY = "libtensorflow_framework.so.2"
"""The library whose layout is read."""


class Layout(NamedTuple):
    """Offsets in tensorflow::OpKernelContext, and in its Params."""

    params: int
    step: int
    cancellation: int


LAYOUT = Layout(params=24, step=0, cancellation=168)
"""The one that `native/tensorflow_private.c` reads."""

VERIFIED = {
    "e72f3a58b80fe0f2": ("tensorflow 2.21.0", LAYOUT),
    "1b100def54c36394": ("tensorflow-cpu 2.21.0", LAYOUT),
}
"""Builds of LIBRARY: what they are of, and their layout."""


def build_of(path: str) -> str | None:
    """Of an ELF library of 64 bit; None of anything else."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:5] != b"\x7fELF\x02":
                return None
            size, count = struct.unpack_from("<2H", head, 58)
            file.seek(struct.unpack_from("<Q", head, 40)[0])
            table = file.read(size * count)
    except (OSError, ValueError):  # a place that no file has
        return None
    found = 0xCBF29CE484222325  # FNV-1a
    for byte in head + table:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return f"{found:016x}" if table else None


def result_file(build: str, cache: str) -> str:
    """Where the result of a self-test of this build is kept (`runtime/kernel_library.py`)."""
    return os.path.join(cache, "fits", "-".join([build, *map(str, LAYOUT)]))


def fits(folder: str, cache: str) -> bool | None:
    """Whether psclust's kernels, and its own wire among them, fit the TensorFlow in `folder`; None:
    it was not tested yet. cache: psclust's folder in the user's cache."""
    build = build_of(os.path.join(folder, LIBRARY))
    if build is None:
        return False
    if build in VERIFIED:
        return VERIFIED[build][1] == LAYOUT
    try:
        with open(result_file(build, cache), encoding="ascii") as file:
            return file.read() == "yes"
    except OSError:
        return None
