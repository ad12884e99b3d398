"""Changes modules when a program imports them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Change = Callable[[ModuleType], None]


def when_imported(changes: Mapping[str, Change]) -> None:
    """Apply each change to its module: now if it is in memory, else when it is imported."""
    for name in [name for name in changes if name in sys.modules]:
        _apply(changes[name], sys.modules[name])
    later = {name: change for name, change in changes.items() if name not in sys.modules}
    if later:
        sys.meta_path.insert(0, _Watch(later))


def _apply(change: Change, module: ModuleType) -> None:
    # Another version of TensorFlow may lack these names; the program runs all the same.
    with suppress(AttributeError, TypeError, ValueError):
        change(module)


class _Watch(MetaPathFinder):
    """Asks the other finders, and adds the change to the module they find."""

    def __init__(self, changes: Mapping[str, Change]) -> None:
        self._changes = changes

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._changes.get(name)
        if change is None:
            return None
        others = (
            finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self
        )
        spec = next((spec for spec in others if spec is not None), None)
        if spec is None or spec.loader is None:
            return spec
        loaded = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loaded(module)
            _apply(change, module)

        setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 - on this loader alone
        return spec
