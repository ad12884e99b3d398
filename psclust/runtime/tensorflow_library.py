"""TensorFlow's C library behind two calls, found without importing TensorFlow and loaded with
ctypes."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from psclust.errors import StartError
from psclust.runtime.kernel_library import kernels_to_load
from psclust.spec.tensorflow_builds import C_LIBRARY

GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Exist on machines with a GPU that TensorFlow can use: the drivers of NVIDIA, Windows (in WSL) and
AMD."""


class NoLibrary(StartError):
    """This TensorFlow has no C library that can make servers."""


class Refused(Exception):
    """The library refused a call; the message is the library's."""


class Library:
    """The loaded library. It has no threads until a server is made, so the process may fork."""

    def __init__(self, path: str) -> None:
        try:
            self._c = ctypes.CDLL(path, handle=open_lazily(path))
            self._declare()
        except (OSError, AttributeError) as error:
            raise NoLibrary(f"{path}: cannot be used as TensorFlow's C library: {error}") from error

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
        """Make and start a server; returns its address, `grpc://host:port`. It lives as long as the
        process: TensorFlow cannot stop a started server. Raises Refused."""
        server = self._c.TF_NewServer(definition, len(definition), self._status)
        self._check()
        self._c.TF_ServerStart(server, self._status)
        self._check()
        return bytes(self._c.TF_ServerTarget(server)).decode()

    def _check(self) -> None:
        if self._c.TF_GetCode(self._status) != 0:
            raise Refused(bytes(self._c.TF_Message(self._status)).decode(errors="replace"))


def open_lazily(path: str) -> int:
    """dlopen with lazy binding, which ctypes does not offer: binding some 230,000 functions, of
    which a server calls few, takes a third of the load time. Raises OSError."""
    c = ctypes.CDLL(None)
    c.dlopen.restype, c.dlopen.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
    c.dlerror.restype = ctypes.c_char_p
    handle: int | None = c.dlopen(os.fsencode(path), os.RTLD_LAZY)
    if handle is None:
        raise OSError(c.dlerror().decode(errors="replace"))
    return handle


def load_library() -> Library:
    """Find and load the library, with psclust's own kernels if they are there. Raises NoLibrary, or
    StartError without TensorFlow."""
    with environment_while_loading({"TF_CPP_MIN_LOG_LEVEL": "2"}):
        path = find_library()
        library = Library(path)
        # Without them, a graph that needs them is refused, and its client builds another.
        with kernels_to_load(os.path.dirname(path)) as own, suppress(Refused):
            if own:
                library.load_ops(own)
        return library


def find_library() -> str:
    """The library in the installed package `tensorflow`, or in the folder PSCLUST_TENSORFLOW.
    Raises NoLibrary if it is not in there, StartError if there is no such package."""
    folder = os.environ.get("PSCLUST_TENSORFLOW") or _package_folder()
    if folder is None:
        raise StartError(
            f"TensorFlow is not installed for {sys.executable}: pip install tensorflow"
        )
    library = os.path.join(folder, C_LIBRARY)
    if not os.path.exists(library):
        raise NoLibrary(f"{folder}: no {C_LIBRARY} in this TensorFlow")
    return library


def _package_folder() -> str | None:
    spec = importlib.util.find_spec("tensorflow")
    return next(iter(spec.submodule_search_locations or ()), None) if spec else None


@contextmanager
def environment_while_loading(settings: Mapping[str, str]) -> Iterator[None]:
    """Set variables that TensorFlow reads once, while it loads, unless the user has: `settings`
    and, on a machine without a GPU, the device types. Otherwise TensorFlow looks for a GPU driver
    whenever a server or session is made, and logs an error. Plug-in devices may need other drivers,
    so device types stay unset if there are any."""
    settings = dict(settings)
    if not any(map(os.path.exists, GPU_DEVICES)) and not _has_plug_ins():
        settings["TF_ENABLED_DEVICE_TYPES"] = "CPU,XLA_CPU"
    added = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _has_plug_ins() -> bool:
    folder = os.environ.get("PSCLUST_TENSORFLOW") or _package_folder()
    return folder is not None and os.path.exists(
        os.path.join(os.path.dirname(folder), "tensorflow-plugins")
    )
