"""The agent: a process on each host that runs tasks for a supervisor on another machine and decides
nothing.

`make proto` generates `agent_pb2.py` from `agent.proto`, with grpcio-tools 1.49: every protobuf
that a TensorFlow from 2.15 on allows reads what it makes, but not what newer ones make.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

_lock = threading.Lock()


def defer(name: str) -> None:
    """Make `import NAME` free until an attribute of the module is read, which imports it."""
    sys.modules.setdefault(name, _Deferred(name))


class _Deferred(ModuleType):
    """Stays lazy when another module imports it; importlib's LazyLoader loads then, before Python
    3.12."""

    def __getattr__(self, name: str) -> Any:
        with _lock:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


# Unused here, and half the time of `import grpc`.
defer("asyncio")
defer("grpc.aio")
