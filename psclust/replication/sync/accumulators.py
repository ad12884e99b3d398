"""Accumulators. One adds up the gradients of a variable, dense or sparse, on the variable's ps,
until their sum is taken.

An accumulator has a number, a round. It refuses gradients of rounds before that, without an error.
To take the sum adds one to the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.by_device import at
from psclust.replication.tf_types import (
    Accumulator,
    Gradient,
    Operation,
    Session,
    Tensor,
    Variable,
)

# To take from an accumulator adds one to its number, and what waits in older rounds may still take.
# The margin is so large that this does not raise the number beyond the current round.
_MARGIN = 100


@dataclass(frozen=True)
class AccumulatorOps:
    """Accumulators that are closed to old gradients and emptied together.

    round: int64 scalar placeholder. open: makes them refuse gradients of rounds before `round`.
    counts: how many gradients each holds, int32 scalars. empty: for each, the op that empties it.
    """

    round: Tensor
    open: Operation
    counts: Sequence[Tensor]
    empty: Sequence[Operation]

    def close(self, session: Session, round_: int) -> None:
        """Refuses gradients of earlier barriers, and none of `round_`, though something may take
        meanwhile."""
        self._refuse(session, round_ - _MARGIN)

    def reset(self, session: Session, round_: int) -> None:
        """Throws away what they hold and refuses gradients older than `round_`."""
        # Old gradients must be refused before the accumulators are emptied, and to empty one adds
        # one to its number: so the number is first that of the round before.
        self._refuse(session, round_ - 1)
        counts = session.run(self.counts)
        session.run([op for op, count in zip(self.empty, counts, strict=True) if count])
        self._refuse(session, round_)

    def _refuse(self, session: Session, round_: int) -> None:
        session.run(self.open, {self.round: round_})


def accumulator_ops(accumulators: Sequence[Accumulator], round_: Tensor) -> AccumulatorOps:
    return AccumulatorOps(
        round_,
        tf.group(*[at(_device(a), a.set_global_step, round_) for a in accumulators]),
        [at(_device(a), a.num_accumulated) for a in accumulators],
        [_taking(a) for a in accumulators],
    )


def accumulator_for(
    gradient: Gradient, variable: Variable, owner: int | None = None
) -> Accumulator:
    """The accumulator of a variable, shared by the graphs of all workers. owner: the one worker
    that pushes into it; None: all do."""
    sparse = isinstance(gradient, tf.IndexedSlices)
    kind = (
        tf.compat.v1.SparseConditionalAccumulator if sparse else tf.compat.v1.ConditionalAccumulator
    )
    # Variable names have no @.
    name = f"psclust/{variable.op.name}" + ("" if owner is None else f"@{owner}")
    with tf.device(variable.device):
        # SUM, not MEAN: the sparse accumulator's mean divides every row by how many workers touched
        # that row.
        return kind(
            variable.dtype.base_dtype, shape=variable.shape, shared_name=name, reduction_type="SUM"
        )


def push(accumulator: Accumulator, gradient: Gradient, round_: Tensor) -> Operation:
    """The op that adds a gradient of `round_`, int64 scalar."""
    with tf.device(_device(accumulator)):
        if isinstance(gradient, tf.IndexedSlices):
            return accumulator.apply_indexed_slices_grad(gradient, local_step=round_)
        return accumulator.apply_grad(gradient, local_step=round_)


def take(accumulator: Accumulator, needed: Tensor = 1) -> Gradient:
    """The sum of the gradients in the accumulator, which is empty afterwards. Waits until there are
    `needed`, int32 scalar."""
    with tf.device(_device(accumulator)):
        if isinstance(accumulator, tf.compat.v1.SparseConditionalAccumulator):
            return accumulator.take_indexed_slices_grad(needed)
        return accumulator.take_grad(needed)


def _taking(accumulator: Accumulator) -> Operation:
    taken = take(accumulator)
    return taken.values.op if isinstance(taken, tf.IndexedSlices) else taken.op


def _device(accumulator: Accumulator) -> str:
    device: str = accumulator.accumulator_ref.device
    return device
