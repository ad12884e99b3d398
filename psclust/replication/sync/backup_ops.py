"""The TensorFlow side of backup workers: every worker pushes into accumulators of its own, and the chief moves what counts into the sums.

In one accumulator for all, a late gradient could not be told from the others: some variables would have it in their sum before the chief
takes it, some would not. Accumulators of its own hold a worker's gradient apart until its message says that it is complete; then it is
added to the sums, or thrown away. The move is made on the variable's ps, so nothing more travels; each ps holds one gradient for each
worker beside the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import Layout
from psclust.replication.sync.accumulators import accumulator_for, at, op_of, push, take
from psclust.replication.update.gradients import GradientsAndVariables


@dataclass(frozen=True)
class BackupOps:
    """What the chief runs of each worker's own accumulators; one entry a worker.

    needed: how many gradients make a step. round: int64 scalar placeholder. collect: moves the gradient into the sums, at `round`.
    discard: throws it away. Both wait until it is complete.
    open: refuses gradients older than `round` from now on. counts: int32 [accumulators], gradients held. empty: one op an accumulator.
    """

    needed: int
    round: Any
    collect: Sequence[Any]
    discard: Sequence[Any]
    open: Sequence[Any]
    counts: Sequence[Any]
    empty: Sequence[Sequence[Any]]


def own_accumulators(contributions: GradientsAndVariables, replica: int) -> list[Any]:
    """Creates the accumulators of one worker in the current graph, one for each of its `contributions`."""
    return [accumulator_for(gradient, variable, owner=replica) for gradient, variable in contributions]


def backup_ops(contributions: GradientsAndVariables, sums: Sequence[Any], layout: Layout, round_: Any, needed: int) -> BackupOps:
    """The chief's ops for all workers; `sums` are the accumulators that an update takes from."""
    variables = [variable for _, variable in contributions]
    own = [own_accumulators(contributions, replica) for replica in range(len(layout.workers))]
    taken = [[take(accumulator, variable) for accumulator, variable in zip(row, variables, strict=True)] for row in own]

    def each(build: Callable[..., Any], row: Sequence[Any]) -> list[Any]:
        return [build(value, variable) for value, variable in zip(row, variables, strict=True)]

    with tf.device(layout.parameters):
        return BackupOps(
            needed=needed,
            round=round_,
            collect=[tf.group(*[push(a, value, v, round_) for a, value, v in zip(sums, row, variables, strict=True)]) for row in taken],
            discard=[tf.group(*[op_of(value) for value in row]) for row in taken],
            open=[tf.group(*each(lambda a, v: at(v, a.set_global_step, round_), row)) for row in own],
            counts=[tf.stack(each(lambda a, v: at(v, a.num_accumulated), row)) for row in own],
            empty=[[op_of(value) for value in row] for row in taken],
        )
