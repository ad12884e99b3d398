"""The ops of backup workers: each worker pushes into its own accumulators, and the chief moves the
gradients that count into the sums.

In accumulators shared by all, a late gradient could not be separated: some variables' sums would
hold it when the chief takes them, others not. A worker's own accumulators hold its gradient until
its message reports that it is complete; then the gradient is added to the sums or thrown away. It
moves within its variable's ps, so nothing more travels; each ps holds one gradient for each worker
beside the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.gradients import GradientsAndVariables
from psclust.replication.sync.accumulators import (
    AccumulatorOps,
    accumulator_for,
    accumulator_ops,
    push,
    take,
)
from psclust.replication.tf_types import Accumulator, Operation, Session, Tensor


@dataclass(frozen=True)
class BackupOps:
    """The chief's ops on the workers' own accumulators; one entry for each worker. needed: how many
    gradients make a step.

    collect: moves the worker's gradient, when it is complete, into the sums of the round. own: the
    accumulators; to empty them throws the gradient away.
    """

    needed: int
    collect: Sequence[Operation]
    own: Sequence[AccumulatorOps]

    def discard(self, session: Session, worker: int) -> None:
        """Throws away a gradient, when it is complete."""
        session.run(list(self.own[worker].empty))


def own_accumulators(contributions: GradientsAndVariables, replica: int) -> list[Accumulator]:
    """Creates the accumulators of one worker in the current graph, one for each of its
    `contributions`."""
    return [
        accumulator_for(gradient, variable, owner=replica) for gradient, variable in contributions
    ]


def backup_ops(
    contributions: GradientsAndVariables,
    sums: Sequence[Accumulator],
    workers: int,
    round_: Tensor,
    needed: int,
) -> BackupOps:
    """The chief's ops for all workers; `sums` are the accumulators that an update takes from."""
    collect, own = [], []
    for replica in range(workers):
        accumulators = own_accumulators(contributions, replica)
        pairs = zip(sums, accumulators, strict=True)
        collect.append(tf.group(*[push(into, take(one), round_) for into, one in pairs]))
        own.append(accumulator_ops(accumulators, round_))
    return BackupOps(needed, collect, own)
