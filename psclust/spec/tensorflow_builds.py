"""Builds of TensorFlow that psclust's C was verified with (`native/README.md`): what it uses of
TensorFlow without a C interface is where it expects it.

TensorFlow's libraries have no build id. Here a build is the hash of its library's ELF header and
table of sections, which has the size and place of each of 36: another compilation has others.

`psclust doctor` has hosts run this file, so it imports nothing of psclust."""

from __future__ import annotations

import os
import struct
import zlib
from typing import NamedTuple

LIBRARY = "libtensorflow_framework.so.2"
"""The library whose layout is read."""

C_LIBRARY = "libtensorflow_cc.so.2"
"""Has the C functions that make a server."""


class Layout(NamedTuple):
    """Offsets in tensorflow::OpKernelContext, and in its Params."""

    params: int
    step: int
    cancellation: int

    def __str__(self) -> str:
        return ",".join(map(str, self))


class Fit(NamedTuple):
    """kernels: whether psclust's own ops may be loaded, which use TensorFlow's C interface.
    layout: the one with which psclust's own wire may be, too; None: it may not."""

    kernels: bool
    layout: Layout | None = None

    def __str__(self) -> str:
        """For `fit_of`."""
        return str(self.layout or ("kernels" if self.kernels else "nothing"))


NOTHING = Fit(False)
LAYOUTS = (
    Layout(params=24, step=0, cancellation=168),
    Layout(params=16, step=0, cancellation=168),
    Layout(params=16, step=0, cancellation=160),
)
"""Of all builds that are known, the newest first. A compiler reads them from the headers that a
wheel of TensorFlow has."""

FITS = (*(Fit(True, layout) for layout in LAYOUTS), Fit(True), NOTHING)
"""The best first. A build that is not known is tested with one after another."""

VERIFIED = {
    "e72f3a58b80fe0f2": ("tensorflow 2.21.0", LAYOUTS[0]),
    "1b100def54c36394": ("tensorflow-cpu 2.21.0", LAYOUTS[0]),
    "26acfeabdb3e3179": ("tensorflow 2.20.0", LAYOUTS[0]),
    "0071f851ce73089c": ("tensorflow-cpu 2.20.0", LAYOUTS[0]),
    "36e8fed1691afcaa": ("tensorflow 2.19.1", LAYOUTS[1]),
    "f89abfda3857d7d8": ("tensorflow-cpu 2.19.1", LAYOUTS[1]),
    "0bc58bf188999f01": ("tensorflow 2.18.1", LAYOUTS[1]),
    "e1b9672e399b4856": ("tensorflow-cpu 2.18.1", LAYOUTS[1]),
    "3d0d6755d525c47b": ("tensorflow 2.17.1", LAYOUTS[1]),
    "ef7c9c188e90b751": ("tensorflow-cpu 2.17.1", LAYOUTS[1]),
    "1d27ae2438baaeb7": ("tensorflow 2.16.2", LAYOUTS[2]),
    "3b8c3150dd2e8317": ("tensorflow-cpu 2.16.2", LAYOUTS[2]),
    "d3cc1245322f16bc": ("tensorflow 2.15.1", LAYOUTS[1]),
    "9e32d5d00c824958": ("tensorflow-cpu 2.15.1", LAYOUTS[1]),
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
    """Where the result of a self-test of this build is kept (`runtime/kernel_library.py`). A
    psclust that knows other layouts has another."""
    layouts = zlib.crc32(" ".join(map(str, LAYOUTS)).encode())
    return os.path.join(cache, "fits", f"{build}-{layouts:08x}")


def fit_of(text: str) -> Fit:
    """Of what such a file says; NOTHING of anything else."""
    return next((fit for fit in FITS if str(fit) == text), NOTHING)


def known_fit(folder: str, cache: str) -> Fit | None:
    """What fits the TensorFlow in `folder`; None: it was not tested yet. cache: psclust's folder in
    the user's cache."""
    build = build_of(os.path.join(folder, LIBRARY))
    if build is None:
        return NOTHING
    if build in VERIFIED:
        return Fit(True, VERIFIED[build][1])
    try:
        with open(result_file(build, cache), encoding="ascii") as file:
            return fit_of(file.read())
    except OSError:
        return None
