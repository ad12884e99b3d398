"""The kinds of preload: what a fork server loads before its first request, and what its children
may rely on."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from psclust.errors import StartError
from psclust.runtime import linux_process
from psclust.runtime.tensorflow_import import no_collection, tensorflow_import
from psclust.runtime.tensorflow_library import Library, NoLibrary, load_library

if TYPE_CHECKING:
    from psclust.runtime.forked_interpreter import Interpreter


class Loaded(NamedTuple):
    """The contents of the fork server, and the environment in which it loaded them; a task with
    another environment is executed instead of forked."""

    environment: Mapping[str, str]
    library: Library | None = None
    interpreter: Interpreter | None = None


def nothing() -> Loaded:
    """Nothing; every task is executed."""
    return Loaded(dict(os.environ))


def library() -> Loaded:
    """TensorFlow's C library, for bare servers. Where there is none, each is executed, and is
    Python's."""
    environment = dict(os.environ)
    try:
        loaded = load_library()
    except NoLibrary:
        return Loaded(environment)
    return _refuse_threads(Loaded(environment, library=loaded))


def tensorflow(also: str | None = None) -> Loaded:
    """The Python package, for programs. also: another module they use."""
    import psclust.runtime.run_in_fork  # noqa: F401 - every child needs it
    from psclust.runtime.forked_interpreter import Interpreter

    environment = dict(os.environ)
    path = list(sys.path)
    # BLAS threads would not survive a fork; a child gets the number in its environment.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with no_collection():
        _import_tensorflow(also)
        # A collection in a child would touch these objects, and thereby copy their pages; one here,
        # before, would visit all of them.
        gc.freeze()
    _restore("OPENBLAS_NUM_THREADS", environment)
    return _refuse_threads(Loaded(environment, interpreter=Interpreter.snapshot(environment, path)))


def _import_tensorflow(also: str | None) -> None:
    try:
        with tensorflow_import({}):
            import tensorflow.compat.v1  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise StartError(
                f"TensorFlow cannot be imported by {sys.executable}: {error}. "
                "Install what is missing."
            ) from error
        raise StartError(
            f"TensorFlow is not installed for {sys.executable}: pip install tensorflow"
        ) from error
    except Exception as error:
        raise StartError(
            f"TensorFlow cannot be imported by {sys.executable}: {type(error).__name__}: {error}"
        ) from error
    if also is not None:
        # Where it fails, it fails in a program that needs it, with its traceback.
        with suppress(Exception):
            import_module(also)


KINDS: Mapping[str, Callable[[], Loaded]] = {
    "library": library,
    "tensorflow": tensorflow,
    "psclust": partial(tensorflow, also="psclust.train.command_line"),
    "keras": partial(tensorflow, also="keras"),
    "nothing": nothing,
}


def _refuse_threads(loaded: Loaded) -> Loaded:
    # Children must not print again what an import has left in a buffer.
    sys.stdout.flush()
    sys.stderr.flush()
    linux_process.flush_c_streams()
    threads = linux_process.thread_count()
    if threads != 1:
        raise StartError(
            f"{sys.executable}: loading TensorFlow started {threads - 1} thread(s), "
            "so tasks cannot be forked from it; start them with --no-preload"
        )
    return loaded


def _restore(name: str, environment: Mapping[str, str]) -> None:
    if name in environment:
        os.environ[name] = environment[name]
    else:
        del os.environ[name]
