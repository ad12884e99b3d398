"""In a streamed round, a worker learns that variables have been updated by a *stamp*, the round, in
a queue beside them.

It waits for the stamp and reads the variables in the same part of its graph, so waiting costs no
message. Each worker has a queue of its own for each group of variables: from one that several
share, a worker that is a round ahead could take the stamp of a slower one.

A stamp may be left of an older round, for which an earlier process of the worker did not wait. So a
worker empties its queues whenever it pulls its variables: it has a token then, and no variable is
updated before it has pushed its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from psclust.replication.passes.local_copies import LocalCopy, bring
from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.wire.differences import last_difference


def bring_updated(
    copies: Sequence[LocalCopy], worker: int
) -> tuple[list[Operation], list[Operation]]:
    """(the ops that bring a worker's copies up to date, each when its variable has been updated;
    those that empty the queues of the stamps by which they know)."""
    emptied: list[Operation] = []

    def arriving(group: Sequence[LocalCopy]) -> list[Tensor]:
        queue = stamps([copy.variable for copy in group], worker)
        with tf.device(group[0].variable.device):
            emptied.append(queue.dequeue_many(queue.size()).op)
            # Waiting for it holds no thread of the ps.
            with tf.control_dependencies([queue.dequeue()]):
                return [
                    c.variable.read_value() if c.sent is None else last_difference(c.sent).read()
                    for c in group
                ]

    brought = bring(copies, arriving).values()
    return [operation for each in brought for operation in each], emptied


def stamps(variables: Sequence[Variable], worker: int) -> Any:
    """The queue for a worker and a group of variables of one ps, shared by the graphs of worker and
    chief."""
    # The graphs may have created the variables in different orders.
    first = min(variable.op.name for variable in variables)
    with tf.device(variables[0].device):
        return tf.queue.FIFOQueue(
            -1, [tf.int64], [[]], shared_name=f"psclust/updated/{first}@{worker}", name="updated"
        )


def announce(
    variables: Sequence[Variable], rounds: Sequence[Tensor], after: Sequence[Operation]
) -> list[Operation]:
    """The ops that put a stamp into each worker's queue when the ops in `after` have ended. rounds:
    for each worker the stamp, int64 [1], or none, int64 [0], on the ps."""
    with tf.device(variables[0].device), tf.control_dependencies(list(after)):
        return [stamps(variables, worker).enqueue_many(own) for worker, own in enumerate(rounds)]
