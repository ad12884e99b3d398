"""Makes a forked interpreter like a fresh one (path, streams, random numbers, environment), and
detects when that is impossible: for another interpreter, or one that would have imported other
modules."""

from __future__ import annotations

import ctypes
import io
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psclust.runtime.shadowed_modules import hidden, path_entries
from psclust.spec.whole_number import whole_number


@dataclass(frozen=True)
class Interpreter:
    """The state of this interpreter when its modules were loaded."""

    path: tuple[str, ...]
    modules: Mapping[str, str]
    """Top-level modules in memory -> file, or ""."""
    python_path: str
    added: Mapping[str, str]
    """Variables that the imports added to the environment."""

    @classmethod
    def snapshot(cls, environment: Mapping[str, str], path: Sequence[str]) -> Interpreter:
        """The current process. environment, path: from before the imports."""
        python_path = environment.get("PYTHONPATH", "")
        own = set(path_entries(python_path))
        return cls(
            path=tuple(entry for entry in path if entry not in own),
            modules={
                name: getattr(module, "__file__", None) or ""
                for name, module in list(sys.modules.items())
                if "." not in name and name != "__main__"
            },
            python_path=python_path,
            added={name: value for name, value in os.environ.items() if name not in environment},
        )

    def runs(self, command: str, search_path: str | None) -> bool:
        """Whether `command` is this interpreter, in the same virtual environment."""
        found = shutil.which(command, path=os.defpath if search_path is None else search_path)
        if found is None:
            return False
        same_folder = os.path.realpath(os.path.dirname(found)) == os.path.realpath(
            os.path.dirname(sys.executable)
        )
        return same_folder and os.path.realpath(found) == os.path.realpath(sys.executable)

    def shadowed(self, folder: str, python_path: str) -> str | None:
        """A file in the script's folder, or in a PYTHONPATH other than this process's, that a fresh
        interpreter would import instead of a module in memory, or run at its start; None if there
        is none."""
        entries = path_entries(python_path) if python_path != self.python_path else []
        hooks = dict.fromkeys(("sitecustomize", "usercustomize"), "")
        places = [
            (folder, self.modules),
            *((entry, {**self.modules, **hooks}) for entry in entries),
        ]
        return next((file for place, modules in places if (file := hidden(place, modules))), None)

    def refresh(
        self,
        environment: Mapping[str, str],
        first: str,
        argv: Sequence[str],
        command: Sequence[str],
    ) -> None:
        """Set what a fresh start would have set. first: `sys.path[0]`. command: the whole command
        line."""
        for name, value in self.added.items():
            os.environ.setdefault(name, value)
        entries = path_entries(environment.get("PYTHONPATH", ""))
        sys.path[:] = [first, *dict.fromkeys([*entries, *self.path])]
        sys.path_importer_cache.clear()
        sys.argv[:] = argv
        sys.orig_argv[:] = command
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _open_streams(bool(environment.get("PYTHONUNBUFFERED")))
        _drop_shared_state()
        _resize_blas(environment)


def _open_streams(unbuffered: bool) -> None:
    """Open sys.stdin, stdout and stderr on descriptors 0 to 2 as the interpreter does if they are
    no terminal."""
    errors = sys.stdout.errors
    sys.stdin = sys.__stdin__ = _stream(0, errors, unbuffered)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, errors, unbuffered)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace", unbuffered)  # type: ignore[misc]


def _stream(descriptor: int, errors: str | None, unbuffered: bool) -> io.TextIOWrapper:
    mode = "w" if descriptor else "r"
    raw = io.FileIO(descriptor, mode, closefd=False)
    raw.name = ("<stdin>", "<stdout>", "<stderr>")[descriptor]
    binary: Any = raw
    if not descriptor:
        binary = io.BufferedReader(raw)
    elif not unbuffered:  # the interpreter itself passes the raw file under -u
        binary = io.BufferedWriter(raw)
    stream = io.TextIOWrapper(
        binary,
        sys.stdout.encoding,
        errors,
        newline="\n" if descriptor else None,
        line_buffering=descriptor == 2 and not unbuffered,
        write_through=unbuffered,
    )
    stream.mode = mode  # type: ignore[misc]
    return stream


def _drop_shared_state() -> None:
    """Drop state that siblings must not share: of random generators, and folders found for another
    environment."""
    random.seed()
    tempfile.tempdir = None
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        multiprocessing.__dict__["ORIGINAL_DIR"] = os.getcwd()


def _resize_blas(environment: Mapping[str, str]) -> None:
    """Give OpenBLAS, which was loaded with one thread, the number of threads in the task's
    environment. The default stays one: tasks share a machine, and TensorFlow does not use
    OpenBLAS."""
    wanted = environment.get("OPENBLAS_NUM_THREADS") or environment.get("OMP_NUM_THREADS", "")
    threads = whole_number(wanted)
    if threads is None or threads < 2:
        return
    with open("/proc/self/maps", encoding="utf-8") as maps:
        libraries = {line.split(maxsplit=5)[5].strip() for line in maps if "openblas" in line}
    for path in libraries:
        library = ctypes.CDLL(path)
        for name in (
            "openblas_set_num_threads",
            "scipy_openblas_set_num_threads",
            "scipy_openblas_set_num_threads64_",
        ):
            if hasattr(library, name):
                getattr(library, name)(threads)
