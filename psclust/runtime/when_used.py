"""Loads TensorFlow without what it imports and few programs use: the first who uses it imports it.

Keras: two thirds of the CPU time where scikit-learn is installed, which Keras imports. TensorFlow
imports Keras for what it may register, and Keras 3 registers nothing; `tf.keras` imports it when it
is first used. The others: an eighth of the rest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

KERAS = "keras"
STAND_INS = {
    # Of these, TensorFlow's own copy of Keras, which its layers use, binds the modules, and one
    # function.
    "requests": (),
    "h5py": (),
    "scipy.sparse": ("issparse",),
    # Names of TensorFlow's: it binds these modules only.
    "tensorflow._api.v2.lite": (),
    "tensorflow._api.v2.compat.v2": (),
    "tensorflow._api.v2.compat.v1.lite": (),
    "tensorflow._api.v2.compat.v1.compat": (),
}
"""Module -> its functions that TensorFlow takes from it at once."""
_BEFORE = {"tensorflow._api.v2.lite": "tensorflow.lite"}
"""Module -> a package that it imports, and that would take its place in `tensorflow` if it were
imported later."""


@contextmanager
def loaded_when_used() -> Iterator[None]:
    """Inside, `import tensorflow` imports none of them that is not imported yet; but it does import
    the Keras of TensorFlow 1 (TF_USE_LEGACY_KERAS), which registers optimizers."""
    legacy = os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True")
    wanted = [
        name
        for name in (KERAS, *STAND_INS)
        if name not in sys.modules and not (legacy and name == KERAS)
    ]
    finder = _Finder(wanted)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        # An import from now on gets the real one. Those that TensorFlow holds find it in the same
        # way.
        for name in wanted:
            if isinstance(sys.modules.get(name), _StandIn):
                del sys.modules[name]


class _StandIn(ModuleType):
    """In place of a module, which it imports when it is asked for anything in it."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            if name in STAND_INS[self.__name__]:
                return _deferred(self.__name__, name)
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self.__name__))


def _deferred(module: str, name: str) -> Callable[..., Any]:
    return lambda *arguments: getattr(import_module(module), name)(*arguments)


class _Finder(MetaPathFinder):
    """Finds each of these modules once, but does not import it."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = set(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in self._names else None
        if spec is not None and name == KERAS:
            spec.loader = _Refusing()
        elif spec is not None:
            spec.loader = _Replacing()
            self._names.discard(name)
        return spec


class _Refusing(Loader):
    def exec_module(self, module: ModuleType) -> None:
        raise ImportError("Keras is not imported while TensorFlow is")


class _Replacing(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _StandIn(spec.name)
        # What the import system asks a new module for.
        vars(module).update(
            __path__=spec.submodule_search_locations, __file__=spec.origin, __cached__=spec.cached
        )
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ in _BEFORE:
            import_module(_BEFORE[module.__name__])
