"""The end of the data: replicas that step together end together."""

from __future__ import annotations

import tensorflow as tf

from psclust.replication.graph_walk import before, reached
from psclust.replication.tf_types import Operation, Tensor

# Names of the op that ends a step when all padded inputs have ended, and of the op behind it.
END_OF_DATA = "psclust_end_of_data"
_GOES_ON = "psclust_goes_on"


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
