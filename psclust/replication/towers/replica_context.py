"""The replica that the current graph is being built for, as layers inside a model see it, and the
moving statistics they hand to it.

It is kept in a graph collection because the user's model function is in between: it calls
`psclust.batch_normalization` without knowing how many replicas there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import tensorflow as tf

from psclust.replication.tf_types import Tensor, Variable
from psclust.replication.towers.tower_all_reduce import AllReduce

_KEY = "psclust/replica"


@dataclass(frozen=True)
class Statistic:
    """A moment of one batch: `variable` moves by (1 - momentum) of the way to `value`."""

    variable: Variable
    value: Tensor
    momentum: float

    def shared(self, replicas: int) -> Statistic:
        """The same for one of several replicas that move the variable one after another instead of
        together."""
        return replace(self, momentum=1 - (1 - self.momentum) / replicas)


@dataclass(frozen=True)
class Replica:
    """present: float32 scalar, 0 for a padding batch, else 1. moving:
    `TrainConfig.moving_statistics`. all_reduce: sums over all replicas; None if moments are not
    shared. statistics: what the model has added."""

    present: Tensor
    moving: str
    all_reduce: AllReduce | None = None
    statistics: list[Statistic] = field(default_factory=list)


def current_replica() -> Replica | None:
    """The replica that the current graph is being built for; None outside training, such as in
    evaluation."""
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
