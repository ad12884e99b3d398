"""Loads TensorFlow without Keras, which takes two thirds of the CPU time where scikit-learn is
installed: Keras imports that. TensorFlow imports Keras for what it may register, and Keras 3
registers nothing; `tf.keras` imports it when it is first used."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


@contextmanager
def keras_deferred() -> Iterator[None]:
    """Inside, `import tensorflow` does not import Keras; but it does import the Keras of
    TensorFlow 1 (TF_USE_LEGACY_KERAS), which registers optimizers."""
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
