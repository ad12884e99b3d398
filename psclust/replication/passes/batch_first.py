"""No variable changes in a step that has no batch.

An update must wait for the batch even if it does not depend on it. A control dependency of every
update on the batch would cost a message from the worker to every ps in each step. Most updates
depend on the batch through their gradient; only the others get one.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from psclust.replication.graph_walk import after, before, reached
from psclust.replication.input.end_of_data import ends_of
from psclust.replication.private_tensorflow import wait_for
from psclust.replication.tf_types import Operation, Tensor


def await_batch(changes: Iterable[Operation], examples: Tensor) -> None:
    """Makes the ops `changes`, see `state_changes`, wait for the batches that `examples` counts."""
    names = {operation.name for operation in changes} - reached([examples.op], before).keys()
    waiting = [set(reached([end], after)) for end in ends_of(examples)]
    # From the first that was built to the last: what depends on one that waits need not wait too.
    for operation in tf.compat.v1.get_default_graph().get_operations():
        if operation.name in names and not all(operation.name in those for those in waiting):
            wait_for(operation, examples.op)
            waiting = [those | reached([operation], after).keys() for those in waiting]
