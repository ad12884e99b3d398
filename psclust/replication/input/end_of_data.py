"""No update without data: what changes a variable waits for the batch, whether or not the change depends on it.

A control dependency of every update on the batch would do, at the price of a message from the worker to every ps in every step. Most
updates depend on the batch as it is, through their gradient; only the others are made to wait.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from psclust.replication.graph_walk import after, before, reached

# Stateful for TensorFlow, though they change nothing.
_READS = frozenset({"ReadVariableOp", "VarHandleOp", "Identity", "Placeholder"})
# The name of the op that ends a step of filled up inputs when all of them have ended, and of the one behind it.
END_OF_DATA = "psclust_end_of_data"
_GOES_ON = "psclust_goes_on"


def await_batch(step: Any, examples: Any, built: int) -> None:
    """Lets every op that changes something on the way to the tensor `step` wait for the batches that the tensor `examples` counts. Of the
    current graph, whose first `built` ops are left as they are."""
    new = tf.compat.v1.get_default_graph().get_operations()[built:]
    within = reached(step.op, before).keys() & {operation.name for operation in new}
    waiting = [set(reached(end, after)) for end in ends_of(examples)]
    for operation in new:
        if operation.name in within and _changes_something(operation) and not all(operation.name in those for those in waiting):
            operation._add_control_input(examples.op)
            waiting = [those | reached(operation, after).keys() for those in waiting]


def _changes_something(operation: Any) -> bool:
    if operation.type in _READS:
        return False
    return bool(operation.op_def.is_stateful) or any(value.dtype._is_ref_dtype for value in operation.inputs)


def until_all_ended(total: Any) -> Any:
    """`total`, int64 scalar, the examples of a step of filled up inputs. Where there are none, raises OutOfRangeError, as an input that is
    not filled up does; its message names END_OF_DATA."""
    nothing = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).take(0))
    going = tf.cond(total > 0, lambda: tf.identity(total), lambda: nothing.get_next(name=END_OF_DATA))
    return tf.identity(going, name=_GOES_ON)


def ends_of(examples: Any) -> list[Any]:
    """The ops that fail at the end of the data of which `examples` counts a batch: that of `until_all_ended`, else the iterators'."""
    behind = reached(examples.op, before).values()
    together = [operation for operation in behind if operation.name.split("/")[-1].startswith(_GOES_ON)]
    return together or [operation for operation in behind if operation.type == "IteratorGetNext"] or [examples.op]
