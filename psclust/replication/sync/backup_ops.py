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

from psclust.replication.device_layout import DeviceLayout
from psclust.replication.gradients import GradientsAndVariables
from psclust.replication.sync.accumulators import (
    AccumulatorOps,
    accumulator_for,
    accumulator_ops,
    push,
    take,
)
from psclust.replication.tf_types import Accumulator, Operation, Tensor


@dataclass(frozen=True)
class BackupOps:
    """The chief's ops on the workers' own accumulators; one entry for each worker. needed: how many
    gradients make a step.

    round: int64 scalar placeholder. collect: moves the worker's gradient into the sums of `round`.
    discard: throws it away. Both wait until the gradient is complete.
    """

    needed: int
    round: Tensor
    collect: Sequence[Operation]
    discard: Sequence[Operation]
    own: Sequence[AccumulatorOps]


def own_accumulators(contributions: GradientsAndVariables, replica: int) -> list[Accumulator]:
    """Creates the accumulators of one worker in the current graph, one for each of its
    `contributions`."""
    return [
        accumulator_for(gradient, variable, owner=replica) for gradient, variable in contributions
    ]


def backup_ops(
    contributions: GradientsAndVariables,
    sums: Sequence[Accumulator],
    layout: DeviceLayout,
    round_: Tensor,
    needed: int,
) -> BackupOps:
    """The chief's ops for all workers; `sums` are the accumulators that an update takes from."""
    variables, collect, own = [variable for _, variable in contributions], [], []
    with tf.device(layout.parameters):
        for replica in range(len(layout.workers)):
            accumulators = own_accumulators(contributions, replica)
            taken = [
                take(accumulator, variable)
                for accumulator, variable in zip(accumulators, variables, strict=True)
            ]
            collect.append(
                tf.group(
                    *[
                        push(a, value, v, round_)
                        for a, value, v in zip(sums, taken, variables, strict=True)
                    ]
                )
            )
            own.append(accumulator_ops(accumulators, variables, taken, round_))
        return BackupOps(needed, round_, collect, [tf.group(*ops.empty) for ops in own], own)
