"""`import tensorflow` in less time."""

from __future__ import annotations

import gc
import os
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from psclust.errors import StartError
from psclust.runtime.tensorflow_library import environment_while_loading, find_library, open_lazily


@contextmanager
def tensorflow_import(settings: Mapping[str, str]) -> Iterator[None]:
    """`import tensorflow` inside. settings: see `environment_while_loading`."""
    with (
        environment_while_loading(settings),
        _keras_deferred(),
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
    `typing` makes an object of each: 19 % of the import (1.43 s of CPU with this, 1.76 without)."""
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


@contextmanager
def _keras_deferred() -> Iterator[None]:
    """Inside, `import tensorflow` does not import Keras, which takes two thirds of the CPU time
    where scikit-learn is installed: Keras imports that. TensorFlow imports Keras for what it may
    register, and Keras 3 registers nothing; `tf.keras` imports it when it is first used. The Keras
    of TensorFlow 1 (TF_USE_LEGACY_KERAS) registers optimizers and is imported."""
    finders = [] if os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True") else [_Finder()]
    sys.meta_path[:0] = finders
    try:
        yield
    finally:
        for finder in finders:
            sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds Keras, for TensorFlow asks where it is, but does not import it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == "keras" else None
        if spec is not None:
            spec.loader = _Refusing()
        return spec


class _Refusing(Loader):
    def exec_module(self, module: ModuleType) -> None:
        raise ImportError("Keras is not imported while TensorFlow is")
