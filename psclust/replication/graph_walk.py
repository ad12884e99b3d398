"""Dependencies between the ops of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import tensorflow as tf

from psclust.replication.tf_types import Operation


def before(operation: Operation) -> Iterable[Operation]:
    """The ops that `operation` waits for."""
    return [*(value.op for value in operation.inputs), *operation.control_inputs]


def after(operation: Operation) -> Iterable[Operation]:
    """The ops that wait for `operation`."""
    return [
        *(user for value in operation.outputs for user in value.consumers()),
        *operation._control_outputs,
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


def uses_state(operation: Operation) -> bool:
    """Whether it does more with state, such as a variable's or a queue's, than to say where that
    is."""
    where = [
        value.dtype == tf.resource or bool(value.dtype._is_ref_dtype) for value in operation.outputs
    ]
    return bool(operation.op_def.is_stateful) and not (where and all(where))
