"""Emptying a group of accumulators."""

from __future__ import annotations

from psclust.replication.sync.accumulators import AccumulatorOps
from psclust.replication.tf_types import Session


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
        # Emptying an accumulator adds one to its number, and gradients must be refused before it is
        # emptied: hence the round before.
        self.close(round_ - 1)
        self._session.run(
            [op for op, count in zip(self._ops.empty, self.counts(), strict=True) if count]
        )
        self.close(round_)
