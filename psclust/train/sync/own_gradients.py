"""The chief's hands on the accumulators that each worker has of its own where there are backup workers."""

from __future__ import annotations

from typing import Any

from psclust.replication.sync.backup_ops import BackupOps


class OwnGradients:
    """One gradient of each worker at most, apart from the sums."""

    def __init__(self, session: Any, ops: BackupOps) -> None:
        self._session = session
        self._ops = ops

    def collect(self, worker: int, round_: int) -> None:
        """Adds the worker's gradient, which is complete, to the sums of `round_`."""
        self._session.run(self._ops.collect[worker], {self._ops.round: round_})

    def discard(self, worker: int) -> None:
        """Throws the worker's gradient, which is complete, away."""
        self._session.run(self._ops.discard[worker])

    def clear(self, worker: int, round_: int) -> None:
        """Throws away what there is of a gradient, and refuses the rest of it: all that is older than `round_`."""
        ops = self._ops
        # In two steps, because emptying an accumulator advances its number by one, and gradients must be refused before it is emptied.
        self._session.run(ops.open[worker], {ops.round: round_ - 1})
        held = self._session.run(ops.counts[worker])
        self._session.run([op for op, count in zip(ops.empty[worker], held, strict=True) if count])
        self._session.run(ops.open[worker], {ops.round: round_})
