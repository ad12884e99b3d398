"""`import tensorflow` in less time."""

from __future__ import annotations

import functools
import gc
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from psclust.errors import StartError
from psclust.runtime.keras_when_used import keras_when_used
from psclust.runtime.tensorflow_library import environment_while_loading, find_library, open_lazily


@contextmanager
def tensorflow_import(settings: Mapping[str, str]) -> Iterator[None]:
    """`import tensorflow` inside. settings: see `environment_while_loading`."""
    with environment_while_loading(settings), keras_when_used(), _annotations_compiled_once(), no_collection():
        # Python's own import of an extension would bind each function of the library it needs. Where it is missing, the import says so.
        with suppress(StartError, OSError):
            open_lazily(find_library())
        yield


@contextmanager
def _annotations_compiled_once() -> Iterator[None]:
    """TensorFlow's modules of ops write the names of thirty types in 18,000 places, and `typing` compiles each of them."""
    names = vars(typing)
    names["compile"] = functools.cache(compile)
    try:
        yield
    finally:
        del names["compile"]


@contextmanager
def no_collection() -> Iterator[None]:
    """The import makes millions of objects and no garbage; the collector would take a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
