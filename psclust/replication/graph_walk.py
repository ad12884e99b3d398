"""What depends on what in a graph of ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def before(operation: Any) -> Iterable[Any]:
    """The ops that `operation` waits for."""
    return [*(value.op for value in operation.inputs), *operation.control_inputs]


def after(operation: Any) -> Iterable[Any]:
    """The ops that wait for `operation`."""
    return [*(user for value in operation.outputs for user in value.consumers()), *operation._control_outputs]


def reached(operation: Any, following: Callable[[Any], Iterable[Any]]) -> dict[str, Any]:
    """name -> op of all that can be reached from `operation`, which is one of them, by steps `before` or `after`."""
    found, waiting = {operation.name: operation}, [operation]
    while waiting:
        for one in following(waiting.pop()):
            if one.name not in found:
                found[one.name] = one
                waiting.append(one)
    return found
