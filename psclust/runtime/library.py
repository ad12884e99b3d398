"""TensorFlow's C library behind five calls, found without importing TensorFlow and loaded with ctypes."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psclust.errors import StartError

NAME = "libtensorflow_cc.so.2"


class Refused(Exception):
    """The library refused a call; the message is its own."""


def find_library() -> Path:
    """The library inside the installed package `tensorflow`, or in the folder that PSCLUST_TENSORFLOW names.

    Raises StartError where there is none."""
    folder = os.environ.get("PSCLUST_TENSORFLOW") or _package_folder()
    if folder is None:
        raise StartError(f"TensorFlow is not installed for {sys.executable}: pip install tensorflow")
    library = Path(folder, NAME)
    if not library.exists():
        raise StartError(f"{folder}: no {NAME} in this TensorFlow; psclust needs TensorFlow 2.21: pip install 'tensorflow>=2.21,<2.22'")
    return library


def _package_folder() -> str | None:
    spec = importlib.util.find_spec("tensorflow")
    return next(iter(spec.submodule_search_locations or ()), None) if spec else None


class Library:
    """The loaded library. It keeps no thread until a server is made, so a process that holds one may fork."""

    def __init__(self, path: Path) -> None:
        try:
            self._c = ctypes.CDLL(str(path))
            self._declare()
        except (OSError, AttributeError) as error:
            raise StartError(f"{path}: cannot be used as TensorFlow's C library: {error}. Reinstall it: pip install tensorflow") from error

    def _declare(self) -> None:
        pointer, status = ctypes.c_void_p, ctypes.c_void_p
        for name, result, arguments in (
            ("TF_NewStatus", status, []),
            ("TF_GetCode", ctypes.c_int, [status]),
            ("TF_Message", ctypes.c_char_p, [status]),
            ("TF_LoadLibrary", pointer, [ctypes.c_char_p, status]),
            ("TF_NewServer", pointer, [ctypes.c_char_p, ctypes.c_size_t, status]),
            ("TF_ServerStart", None, [pointer, status]),
            ("TF_ServerTarget", ctypes.c_char_p, [pointer]),
        ):
            function = getattr(self._c, name)
            function.restype, function.argtypes = result, arguments
        self._status = self._c.TF_NewStatus()

    def load_ops(self, path: str) -> None:
        """Register the ops and kernels of a custom op library. Raises Refused."""
        self._c.TF_LoadLibrary(os.fsencode(path), self._status)
        self._check()

    def start_server(self, definition: bytes) -> str:
        """Make a server and start it; the address it answers at, as `grpc://host:port`. It lives as long as the process: TensorFlow has
        no call that stops a started server. Raises Refused."""
        with _roomy_arenas():
            return self._start_server(definition)

    def _start_server(self, definition: bytes) -> str:
        server = self._c.TF_NewServer(definition, len(definition), self._status)
        self._check()
        self._c.TF_ServerStart(server, self._status)
        self._check()
        return bytes(self._c.TF_ServerTarget(server)).decode()

    def _check(self) -> None:
        if self._c.TF_GetCode(self._status) != 0:
            raise Refused(bytes(self._c.TF_Message(self._status)).decode(errors="replace"))


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3


@contextmanager
def _roomy_arenas() -> Iterator[None]:
    """Let each thread that starts in here begin with room for 6 MiB on its heap.

    Each of a server's eight request threads allocates 4.5 MiB in small pieces as it starts, and glibc enlarges a thread's heap one page,
    one mprotect, at a time: ten thousand calls a server that fight for one lock, four fifths of the time in which 64 servers start.
    Touching any of these settings fixes the size above which a block gets a mapping of its own, so that is set to where it would have
    risen by itself with the first large tensors. Settings of the user's own are left alone."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        yield
        return
    libc.mallopt(M_TOP_PAD, 6 << 20)
    libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)
    libc.mallopt(M_TRIM_THRESHOLD, 64 << 20)
    yield
    libc.mallopt(M_TOP_PAD, 128 << 10)
