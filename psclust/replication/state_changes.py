"""Finds the ops by which an update changes state, so that they can be made to wait, or be
undone."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from psclust.replication.graph_walk import before, reached
from psclust.replication.private_tensorflow import is_state
from psclust.replication.tf_types import Operation, Variable

_READS = frozenset({"Identity", "ReadVariableOp", "ResourceGather", "VarIsInitializedOp"})


def state_changes(
    update: Iterable[Operation], apart_from: Iterable[Operation] = ()
) -> list[Operation]:
    """The ops on which `update` depends that write to variables, or take from accumulators and
    queues. Not those on which ops `apart_from` it depend, too: other runs make these."""
    others = reached(apart_from, before)
    return [
        operation
        for name, operation in reached(update, before).items()
        if name not in others
        and operation.type not in _READS
        and any(is_state(value) for value in operation.inputs)
    ]


def written(changes: Iterable[Operation]) -> dict[str, tuple[Variable, list[Operation]]]:
    """name -> (global variable, the ops among `changes` that write to it), of all resource
    variables that have some."""
    names, found = {operation.name for operation in changes}, {}
    for variable in tf.compat.v1.global_variables():
        handle = getattr(variable, "handle", None)
        uses = handle.consumers() if handle is not None else ()
        writers = [use for use in uses if use.name in names]
        if writers:
            found[variable.op.name] = (variable, writers)
    return found
