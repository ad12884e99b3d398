"""Accumulators. One adds up the gradients of a variable, dense or sparse, on the variable's ps,
until their sum is taken.

An accumulator has a number, a round. It refuses gradients of rounds before that, without an error.
To take the sum adds one to the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import (
    Accumulator,
    Gradient,
    Operation,
    Session,
    Tensor,
    Variable,
)


@dataclass(frozen=True)
class AccumulatorOps:
    """Ops on a group of accumulators. In a streamed round the queues of `Arrivals` belong to the
    group; they refuse nothing.

    round: int64 scalar placeholder. open: makes them refuse gradients of rounds before `round`.
    counts: how many gradients each holds, int32 scalars. empty: for each, the op that empties it.
    """

    round: Tensor
    open: Operation
    counts: Sequence[Tensor]
    empty: Sequence[Operation]


def accumulator_ops(
    accumulators: Sequence[Accumulator],
    variables: Sequence[Variable],
    sums: Sequence[Gradient],
    round_: Tensor,
) -> AccumulatorOps:
    """The ops on the accumulators of `variables`. sums: what `take` has built for each."""
    pairs = list(zip(accumulators, variables, strict=True))
    return AccumulatorOps(
        round_,
        tf.group(*[at(v, a.set_global_step, round_) for a, v in pairs]),
        [at(v, a.num_accumulated) for a, v in pairs],
        [taken.values.op if isinstance(taken, tf.IndexedSlices) else taken.op for taken in sums],
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


def push(
    accumulator: Accumulator, gradient: Gradient, variable: Variable, stamp: Tensor
) -> Operation:
    """The op that adds a gradient of the round `stamp`, int64 scalar."""
    with tf.device(variable.device):
        if isinstance(gradient, tf.IndexedSlices):
            return accumulator.apply_indexed_slices_grad(gradient, local_step=stamp)
        return accumulator.apply_grad(gradient, local_step=stamp)


def take(accumulator: Accumulator, variable: Variable, needed: Tensor = 1) -> Gradient:
    """The sum of the gradients in the accumulator, which is empty afterwards. Waits until there are
    `needed`, int32 scalar."""
    with tf.device(variable.device):
        if isinstance(accumulator, tf.compat.v1.SparseConditionalAccumulator):
            return accumulator.take_indexed_slices_grad(needed)
        return accumulator.take_grad(needed)


def at(variable: Variable, build: Callable[..., Any], *arguments: Any) -> Any:
    """Calls `build` on the device of `variable`."""
    with tf.device(variable.device):
        return build(*arguments)


class AccumulatorGroup:
    """Accumulators that are counted, closed to old gradients and emptied together."""

    def __init__(self, session: Session, ops: AccumulatorOps) -> None:
        self._session = session
        self._ops = ops

    def counts(self) -> list[int]:
        """How many gradients each holds."""
        return [int(count) for count in self._session.run(self._ops.counts)]

    def close(self, round_: int) -> None:
        """Refuses gradients older than `round_`."""
        self._session.run(self._ops.open, {self._ops.round: round_})

    def reset(self, round_: int) -> None:
        """Throws away what they hold and refuses gradients older than `round_`."""
        # Old gradients must be refused before the accumulators are emptied, and to empty one adds
        # one to its number: so the number is first that of the round before.
        self.close(round_ - 1)
        self._session.run(
            [op for op, count in zip(self._ops.empty, self.counts(), strict=True) if count]
        )
        self.close(round_)
