"""Dependencies between the ops of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from psclust.replication.private_tensorflow import waiting_for
from psclust.replication.tf_types import Operation


def before(operation: Operation) -> Iterable[Operation]:
    """The ops that `operation` waits for."""
    return [*(value.op for value in operation.inputs), *operation.control_inputs]


def after(operation: Operation) -> Iterable[Operation]:
    """The ops that wait for `operation`."""
    return [
        *(user for value in operation.outputs for user in value.consumers()),
        *waiting_for(operation),
    ]


def reached(
    starts: Iterable[Operation], following: Callable[[Operation], Iterable[Operation]]
) -> dict[str, Operation]:
    """name -> op for `starts` and all ops reachable from them, with `following` one of `before` and
    `after`."""
    found = {operation.name: operation for operation in starts}
    waiting = list(found.values())
    while waiting:
        for one in following(waiting.pop()):
            if one.name not in found:
                found[one.name] = one
                waiting.append(one)
    return found
