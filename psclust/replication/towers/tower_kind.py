"""How the model is built in one tower: one constructor for each place that builds towers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psclust.replication.graph_plan import BetweenGraphPlan, InGraphPlan

if TYPE_CHECKING:
    from psclust.replication.towers.tower_all_reduce import AllReduce


@dataclass(frozen=True, slots=True)
class TowerKind:
    """reuse: the variables exist and are shared. weighted: gradients are multiplied by the number
    of examples, to be averaged over towers. maybe_empty: a batch may have no examples, and must
    then change nothing. bare: the input runs on a server without Python.
    all_reduce: sums over all towers, for the moments of their batches."""

    reuse: bool = False
    weighted: bool = False
    maybe_empty: bool = False
    bare: bool = False
    all_reduce: AllReduce | None = None

    @classmethod
    def alone(cls) -> TowerKind:
        """The only tower there is."""
        return cls()

    @classmethod
    def in_graph(cls, plan: InGraphPlan, tower: int, all_reduce: AllReduce | None) -> TowerKind:
        """Number `tower` of the towers in one graph. A part of a split batch may be empty too."""
        maybe_empty = plan.padded or plan.split_on is not None
        return cls(
            reuse=tower > 0,
            weighted=plan.combined,
            maybe_empty=maybe_empty,
            bare=plan.bare,
            all_reduce=all_reduce,
        )

    @classmethod
    def between_graph(cls, plan: BetweenGraphPlan, all_reduce: AllReduce | None) -> TowerKind:
        """The only tower of a worker."""
        return cls(weighted=plan.sync, maybe_empty=plan.padded, all_reduce=all_reduce)

    @classmethod
    def local(cls, plan: BetweenGraphPlan, tower: int, all_reduce: AllReduce | None) -> TowerKind:
        """Number `tower` of the towers of one worker, which become one with `joined`."""
        return cls(
            reuse=tower > 0,
            weighted=True,
            maybe_empty=plan.towers_padded or plan.split,
            all_reduce=all_reduce,
        )

    def for_batch(self, number: int, batches: int) -> TowerKind:
        """The same for one of the `batches` that the tower accumulates for an update. Padding may
        complete the last ones."""
        return replace(
            self,
            reuse=self.reuse or number > 0,
            weighted=self.weighted or batches > 1,
            maybe_empty=self.maybe_empty or number > 0,
        )
