"""What a function inside a model can know of the replica that it is being built for, and the moving statistics it hands to it.

The replica travels with the graph, in a collection, because the user's model function stands between: it calls
`psclust.batch_normalization` without knowing how many replicas there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import tensorflow as tf

_KEY = "psclust/replica"


@dataclass(frozen=True)
class Statistic:
    """`variable` is to move by (1 - momentum) of the way to `value`, the same moment of one batch."""

    variable: Any
    value: Any
    momentum: float

    def shared(self, replicas: int) -> Statistic:
        """The same for one of several replicas that move the variable one after another, not together."""
        return replace(self, momentum=1 - (1 - self.momentum) / replicas)


class AllReduce(Protocol):
    """Sums across the replicas of a synchronous step, in the middle of the model."""

    @property
    def replicas(self) -> int: ...

    @property
    def index(self) -> int: ...

    def sum(self, value: Any) -> Any:
        """The sum of `value`, of the same static shape in all replicas. Its gradient is the sum of the gradients in all replicas."""


@dataclass(frozen=True)
class Replica:
    """present: float32 scalar, 0 where the batch only fills up. moving: which statistics are kept, see `Settings`.
    all_reduce: to the other replicas, None where there are none or moments are not shared. statistics: what the model has handed in."""

    present: Any
    moving: str
    all_reduce: AllReduce | None = None
    statistics: list[Statistic] = field(default_factory=list)


def current_replica() -> Replica | None:
    """The replica that the current graph is being built for; None in any other graph, for example in evaluation."""
    found = tf.compat.v1.get_collection(_KEY)
    return found[-1] if found else None


@contextmanager
def building(replica: Replica) -> Iterator[None]:
    """Makes `replica` the current one of the current graph."""
    stack = tf.compat.v1.get_collection_ref(_KEY)
    stack.append(replica)
    try:
        yield
    finally:
        stack.pop()
