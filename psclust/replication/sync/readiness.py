"""How a worker learns on a ps that variables have been updated: by a stamp, the round, in a queue of its own beside them.

A worker waits for the stamp and reads the variables in the same part of its graph, so waiting costs no message. Each worker has a queue of
its own for each group of variables: from one that several share, a worker that is a round ahead could take the stamp of a slower one.
Stamps of older rounds, for which a worker did not wait, are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Operation, Tensor, Variable

# No round has it.
_NEVER = -1


def stamps(variables: Sequence[Variable], worker: int) -> Any:
    """The queue for a worker and a group of variables of one ps, shared by the graphs of worker and chief."""
    # The graphs may have created the variables in different orders.
    first = min(variable.op.name for variable in variables)
    with tf.device(variables[0].device):
        return tf.queue.FIFOQueue(-1, [tf.int64], [[]], shared_name=f"psclust/updated/{first}@{worker}", name="updated")


def announce(variables: Sequence[Variable], counts: Sequence[Tensor], round_: Tensor, after: Sequence[Operation]) -> list[Operation]:
    """The ops that stamp `round_`, after the ops in `after`, for each worker as often as `counts` has it: int64 scalars, 0 or 1."""
    with tf.device(variables[0].device):
        with tf.control_dependencies(list(after)):
            stamp = tf.reshape(round_, [1])
        return [stamps(variables, worker).enqueue_many(tf.repeat(stamp, count)) for worker, count in enumerate(counts)]


def stamped(variables: Sequence[Variable], worker: int, round_: Tensor) -> list[Operation]:
    """The ops that end when the variables have been updated in `round_`."""
    queue = stamps(variables, worker)
    with tf.device(variables[0].device):
        # A dequeue that waits holds no thread of the ps.
        start = tf.constant(_NEVER, tf.int64)
        loop = tf.while_loop(lambda last: last < round_, lambda last: queue.dequeue(), [start], parallel_iterations=1)
        return [tensor.op for tensor in tf.nest.flatten(loop)]
