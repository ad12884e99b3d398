"""The end of the data: no variable changes in a step that has no batch, and replicas that step
together end together.

An update must wait for the batch even if it does not depend on it. A control dependency of every
update on the batch would cost a message from the worker to every ps in each step. Most updates
depend on the batch through their gradient; only the others get one.
"""

from __future__ import annotations

import tensorflow as tf

from psclust.replication.graph_walk import after, before, reached
from psclust.replication.tf_types import Operation, Tensor

# Ops that TensorFlow calls stateful although they change nothing.
_READS = frozenset({"ReadVariableOp", "VarHandleOp", "Identity", "Placeholder"})
# Names of the op that ends a step when all padded inputs have ended, and of the op behind it.
END_OF_DATA = "psclust_end_of_data"
_GOES_ON = "psclust_goes_on"


def await_batch(step: Tensor, examples: Tensor, built: int) -> None:
    """Makes every op that `step` depends on and that changes a variable wait for the batches that
    `examples` counts. Leaves the first `built` ops of the current graph as they are."""
    new = tf.compat.v1.get_default_graph().get_operations()[built:]
    within = reached([step.op], before).keys() & {operation.name for operation in new}
    waiting = [set(reached([end], after)) for end in ends_of(examples)]
    for operation in new:
        if (
            operation.name in within
            and _changes_something(operation)
            and not all(operation.name in those for those in waiting)
        ):
            operation._add_control_input(examples.op)
            waiting = [those | reached([operation], after).keys() for those in waiting]


def _changes_something(operation: Operation) -> bool:
    if operation.type in _READS:
        return False
    return bool(operation.op_def.is_stateful) or any(
        value.dtype._is_ref_dtype for value in operation.inputs
    )


def until_all_ended(total: Tensor) -> Tensor:
    """`total`, int64 scalar, the examples of a step whose inputs are padded. If it is 0, the op
    raises OutOfRangeError, as an input without padding does, with END_OF_DATA in the message."""
    nothing = tf.compat.v1.data.make_one_shot_iterator(
        tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).take(0)
    )
    going = tf.cond(
        total > 0, lambda: tf.identity(total), lambda: nothing.get_next(name=END_OF_DATA)
    )
    return tf.identity(going, name=_GOES_ON)


def ends_of(examples: Tensor) -> list[Operation]:
    """The ops that fail at the end of the data that `examples` counts: the one of
    `until_all_ended`, otherwise the iterators'."""
    behind = reached([examples.op], before).values()
    together = [
        operation for operation in behind if operation.name.split("/")[-1].startswith(_GOES_ON)
    ]
    return (
        together
        or [operation for operation in behind if operation.type == "IteratorGetNext"]
        or [examples.op]
    )
