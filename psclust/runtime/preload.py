"""What a fork server loads before its first request, one function per kind, and what a child forked from it may rely on."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from psclust.errors import StartError
from psclust.runtime import linux_process
from psclust.runtime.tensorflow_library import Library, environment_while_loading, load_library

if TYPE_CHECKING:
    from psclust.runtime.forked_interpreter import Interpreter


class Loaded(NamedTuple):
    """What this process has loaded, and the environment it was loaded under: a task that wants another one is executed instead."""

    environment: Mapping[str, str]
    library: Library | None = None
    interpreter: Interpreter | None = None


def nothing() -> Loaded:
    """Every task is executed."""
    return Loaded(dict(os.environ))


def library() -> Loaded:
    """TensorFlow's C library, for bare servers."""
    environment = dict(os.environ)
    return _alone(Loaded(environment, library=load_library()))


def tensorflow() -> Loaded:
    """The Python package, for clients: `import tensorflow` brings Keras and everything else that a script touches at its start."""
    import psclust.runtime.run_in_fork  # noqa: F401 - what every child needs
    from psclust.runtime.forked_interpreter import Interpreter

    environment = dict(os.environ)
    path = list(sys.path)
    # A pool of BLAS threads would not survive the fork; a child gets as many as its environment asks for.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # The import makes millions of objects and no garbage: a fifth of its time is the collector looking for some.
    gc.disable()
    try:
        with environment_while_loading({}):
            import tensorflow.compat.v1  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise StartError(f"TensorFlow cannot be imported by {sys.executable}: {error}. Install what is missing.") from error
        raise StartError(f"TensorFlow is not installed for {sys.executable}: pip install tensorflow") from error
    except Exception as error:
        raise StartError(f"TensorFlow cannot be imported by {sys.executable}: {type(error).__name__}: {error}") from error
    _restore("OPENBLAS_NUM_THREADS", environment)
    # Objects that live as long as the process: no collection in a child looks at them, which would copy their pages.
    gc.freeze()
    gc.enable()
    return _alone(Loaded(environment, interpreter=Interpreter.snapshot(environment, path)))


KINDS: Mapping[str, Callable[[], Loaded]] = {"library": library, "tensorflow": tensorflow, "nothing": nothing}


def _alone(loaded: Loaded) -> Loaded:
    # What an import may have printed must not be printed again by every child.
    sys.stdout.flush()
    sys.stderr.flush()
    linux_process.flush_c_streams()
    threads = linux_process.thread_count()
    if threads != 1:
        raise StartError(
            f"{sys.executable}: loading TensorFlow started {threads - 1} thread(s), so tasks cannot be forked from it; "
            "start them with --no-preload"
        )
    return loaded


def _restore(name: str, environment: Mapping[str, str]) -> None:
    if name in environment:
        os.environ[name] = environment[name]
    else:
        del os.environ[name]
