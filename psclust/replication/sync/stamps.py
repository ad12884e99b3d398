"""How a worker learns on a ps that variables have been updated: by a stamp, the round, in a queue
of its own beside them.

A worker waits for the stamp and reads the variables in the same part of its graph, so waiting costs
no message. Each worker has a queue of its own for each group of variables: from one that several
share, a worker that is a round ahead could take the stamp of a slower one.

A stamp may be of an older round, for which an earlier process of the worker did not wait. A step
takes one stamp of each queue and tells which: the worker then takes those that are left up to its
round, and pulls the variables again, because it has read them too soon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Operation, Tensor, Variable


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


def of_each(rows: Tensor, chosen: Tensor, workers: int) -> list[Tensor]:
    """For each worker its row of `rows`, [1, ...], if `chosen`, int32 [workers], is 1 there, and no
    row, [0, ...], if it is 0."""
    whose = workers - chosen * (workers - tf.range(workers))
    return list(tf.dynamic_partition(rows, whose, workers + 1))[:workers]


def stamp_of(variables: Sequence[Variable], worker: int) -> Tensor:
    """The next stamp for the worker, int64 scalar. Waiting for it holds no thread of the ps."""
    with tf.device(variables[0].device):
        return stamps(variables, worker).dequeue()
