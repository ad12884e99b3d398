"""Puts psclust's own wire where a graph goes from task to task (see `own_wire`).

What follows a switch is *dead* in the runs that take the other branch: it has no value.
TensorFlow's wire tells the receiver so, psclust's does not. So such tensors stay with TensorFlow's.
A small constant does not travel: each task that needs it gets one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import tensorflow as tf

from psclust.replication.graph_walk import after, reached
from psclust.replication.passes.narrow import place_of
from psclust.replication.private_tensorflow import (
    in_control_flow,
    replace_uses,
    wait_instead,
)
from psclust.replication.tf_types import Operation, Tensor
from psclust.replication.wire.own_wire import OwnWire, allowed_wire

# The types that are in memory as they travel.
_DTYPES = frozenset(
    {
        "float32",
        "float64",
        "bfloat16",
        "float16",
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "bool",
    }
)
_MOST_DIMENSIONS = 8  # as in native/wire.h
# Numbers in a constant of which each task that needs it gets one of its own, at most.
_MOST_CONSTANTS = 16


def use_own_wire() -> None:
    """Makes what goes from task to task in the current graph travel by it, if the graph may use it.
    What loops and branches do inside stays as it is."""
    graph = tf.compat.v1.get_default_graph()
    wire = allowed_wire(graph)
    if wire is None:
        return
    operations = [each for each in graph.get_operations() if not in_control_flow(each)]
    crossings = _Crossings(wire, operations)
    for operation in crossings.operations.values():
        for value in operation.outputs:
            crossings.redirect(value)
    for operation in crossings.operations.values():
        crossings.redirect_order(operation)


class _Crossings:
    """The tensors that go from task to task and have a value in every run, among `operations`."""

    def __init__(self, wire: OwnWire, operations: Sequence[Operation]) -> None:
        dead = _perhaps_dead(operations)
        self._wire = wire
        self.operations = {each.name: each for each in operations if each.name not in dead}
        # (the task that is told, the names of ops of another) -> its op that learns of their end.
        self._words: dict[tuple[str, frozenset[str]], Operation] = {}

    def redirect(self, value: Tensor) -> None:
        """Makes the ops of other tasks that use a tensor receive it by psclust's wire."""
        if value.dtype.name not in _DTYPES or (value.shape.rank or 0) > _MOST_DIMENSIONS:
            return
        source = task_of(value.op)
        elsewhere: dict[str, list[Operation]] = {}
        for user in value.consumers():
            if _is_crossing(source, task_of(user)) and user.name in self.operations:
                elsewhere.setdefault(task_of(user), []).append(user)
        for target, users in elsewhere.items():
            received = (
                _copied(value, target)
                if _is_constant(value)
                else self._wire.received(value, source, target)
            )
            replace_uses(value, received, users)

    def redirect_order(self, user: Operation) -> None:
        """Where an op has control dependencies on ops of other tasks, makes it wait for one tensor
        from each of those tasks instead."""
        target = task_of(user)
        awaited: dict[str, list[Operation]] = {}
        for operation in user.control_inputs:
            if _is_crossing(task_of(operation), target) and operation.name in self.operations:
                awaited.setdefault(task_of(operation), []).append(operation)
        for source, operations in awaited.items():
            key = target, frozenset(operation.name for operation in operations)
            if key not in self._words:
                with tf.device(source), tf.control_dependencies(operations):
                    done = tf.identity(tf.constant(True), name="done")
                self._words[key] = self._wire.received(done, source, target).op
            wait_instead(user, self._words[key], operations)


def _perhaps_dead(operations: Iterable[Operation]) -> set[str]:
    """The names of the switches, and of what follows them; a merge is never dead."""
    switches = [each for each in operations if each.type == "Switch"]
    found = reached(switches, lambda one: [each for each in after(one) if each.type != "Merge"])
    return set(found)


def _is_constant(value: Tensor) -> bool:
    """Whether it is a constant so small that one in the other task's graph costs no more than a
    message."""
    return (
        value.op.type == "Const"
        and not value.op.control_inputs
        and value.shape.num_elements() <= _MOST_CONSTANTS
    )


def _copied(constant: Tensor, target: str) -> Tensor:
    with tf.control_dependencies(None), tf.device(target):
        return tf.constant(tf.get_static_value(constant), constant.dtype, name="constant")


def _is_crossing(source: str, target: str) -> bool:
    """Whether these are two tasks. An op of an initial value has none, ''."""
    return source != target and bool(source and target)


def task_of(operation: Operation) -> str:
    """The device of its task; empty if it is of none."""
    return _task(place_of(operation))


@cache
def _task(device: str) -> str:
    """The task alone, without the CPU or GPU: the ops of the wire have only a kernel for the CPU,
    which TensorFlow chooses."""
    spec = tf.DeviceSpec.from_string(device)
    return "" if spec.job is None or spec.task is None else f"/job:{spec.job}/task:{spec.task}"
