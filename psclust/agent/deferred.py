"""Modules that gRPC imports in case they are wanted."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

_lock = threading.Lock()


def defer(name: str) -> None:
    """From now on `import NAME` costs nothing until something is asked of the module, which is then imported."""
    sys.modules.setdefault(name, _Deferred(name))


class _Deferred(ModuleType):
    """Unlike the standard library's LazyLoader it survives being imported, which before Python 3.12 loads what that has put off."""

    def __getattr__(self, name: str) -> Any:
        with _lock:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)
