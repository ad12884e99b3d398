"""The gradients of a streamed round wait on the ps of their variable until every worker has sent
one.

The first two workers have a queue each: their gradients stay in the memory in which they arrive,
and the sum is written over one of them. All others share one accumulator, so a ps holds at most
three gradients of a variable, however many workers there are. With an accumulator alone there would
be more copies: it copies the first gradient that it gets, and nothing may be written over its sum.

    worker 0 --> queue -------+
    worker 1 --> queue -------+--> sum
    others   --> accumulator -+

A process of a worker that was thought dead may push a gradient of an older round. An accumulator
refuses it. In a queue it shows when it is taken, by the round that is with it: then the chief opens
another session, as if it had been restarted, and rolls the variables back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.sync.accumulators import accumulator_for, push, take
from psclust.replication.tf_types import Accumulator, Operation, Tensor, Variable

_QUEUED = 2


def inlet_of(worker: int) -> int:
    """At which of the `Arrivals.inlets` the gradients of a worker wait."""
    return min(worker, _QUEUED)


@dataclass(frozen=True)
class Arrivals:
    """Holds the gradients of `variable`, which are dense. queues: one for each of the first
    workers, of (round, gradient), an int64 scalar and a tensor like the variable. others: the
    accumulator of the other workers; None if there are none."""

    variable: Variable
    queues: Sequence[Any]
    others: Accumulator | None

    @property
    def inlets(self) -> range:
        return range(len(self.queues) + (self.others is not None))

    def push(self, inlet: int, gradient: Tensor, round_: Tensor) -> Operation:
        """The op that adds a gradient of `round_`, int64 scalar, to those that wait at an inlet."""
        if inlet < len(self.queues):
            with tf.device(self.variable.device):
                return self.queues[inlet].enqueue((round_, gradient))
        assert self.others is not None
        return push(self.others, gradient, round_)

    def push_zero(self, inlet: int, round_: Tensor) -> Operation:
        with tf.device(self.variable.device):
            return self.push(
                inlet, tf.zeros(self.variable.shape, self.variable.dtype.base_dtype), round_
            )

    def count(self, inlet: int) -> Tensor:
        """How many gradients wait at an inlet, int32 scalar."""
        with tf.device(self.variable.device):
            return (
                self.queues[inlet].size()
                if self.others is None or inlet < len(self.queues)
                else self.others.num_accumulated()
            )

    def most(self, inlet: int, workers: int) -> int:
        """How many gradients a sum takes from an inlet at most."""
        return 1 if inlet < len(self.queues) else workers - len(self.queues)

    def take(self, others: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """(one gradient from each queue, and the sum of `others` gradients, int32 scalar, from the
        accumulator; the rounds of those from queues, int64 scalars). Waits until they are
        there."""
        with tf.device(self.variable.device):
            rounds, gradients = (
                list(each) for each in zip(*[queue.dequeue() for queue in self.queues], strict=True)
            )
            if self.others is not None:
                gradients.append(take(self.others, others))
            return gradients, rounds


def arrivals_of(variable: Variable, workers: int) -> Arrivals:
    """The arrivals of a variable, shared by the graphs of all workers."""
    with tf.device(variable.device):
        types, shapes = [tf.int64, variable.dtype.base_dtype], [[], variable.shape]
        names = [
            f"psclust/arrivals/{variable.op.name}@{worker}"
            for worker in range(min(workers, _QUEUED))
        ]
        queues = [
            tf.queue.FIFOQueue(-1, types, shapes, shared_name=name, name="arrivals")
            for name in names
        ]
    return Arrivals(
        variable, queues, accumulator_for(variable, variable) if workers > _QUEUED else None
    )


def others_of(taking_part: Tensor) -> Tensor:
    """How many gradients to take from the accumulator, int32 scalar. taking_part: 1 for each worker
    that takes part, 0 for the others, int32 [workers]. If nobody there takes part it is one: a
    gradient of zero, which the chief pushes."""
    return tf.maximum(tf.reduce_sum(taking_part[_QUEUED:]), 1)
