"""`import tensorflow` in less time."""

from __future__ import annotations

import gc
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from psclust.errors import StartError
from psclust.runtime.deferred_keras import keras_deferred
from psclust.runtime.tensorflow_library import environment_while_loading, find_library, open_lazily


@contextmanager
def tensorflow_import(settings: Mapping[str, str]) -> Iterator[None]:
    """`import tensorflow` inside. settings: see `environment_while_loading`."""
    with (
        environment_while_loading(settings),
        keras_deferred(),
        _constraints_made_once(),
        no_collection(),
    ):
        # Python's own import of an extension would bind each function of the library it needs.
        # Where it is missing, the import says so.
        with suppress(StartError, OSError):
            open_lazily(find_library())
        yield


@contextmanager
def _constraints_made_once() -> Iterator[None]:
    """TensorFlow's modules of ops name thirty types 18,000 times, as what a TypeVar may be, and
    `typing` makes an object of each."""
    names = vars(typing)
    check: Callable[..., Any] = names["_type_check"]
    made: dict[str, Any] = {}

    def once(wanted: Any, message: str, *others: Any, **settings: Any) -> Any:
        if type(wanted) is not str or not message.startswith("TypeVar(") or others or settings:
            return check(wanted, message, *others, **settings)
        found = made.get(wanted)
        if found is None:
            found = made[wanted] = check(wanted, message)
        return found

    names["_type_check"] = once
    try:
        yield
    finally:
        names["_type_check"] = check


@contextmanager
def no_collection() -> Iterator[None]:
    """The import makes millions of objects and no garbage; the collector would take a fifth of the
    time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
