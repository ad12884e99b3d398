"""The replica that the current graph is being built for, as layers inside a model see it, and the
moving statistics they hand to it.

It is kept in a graph collection because the user's model function is in between: it calls
`psclust.batch_normalization` without knowing how many replicas there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import tensorflow as tf

from psclust.replication.tf_types import Tensor, Variable

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


class AllReduce(Protocol):
    """Sums over the replicas of a synchronous step, in the middle of the model: one replica's
    access, see `sync/all_reduce.py`."""

    @property
    def replicas(self) -> int: ...

    @property
    def index(self) -> int: ...

    def sum(self, value: Tensor) -> Tensor:
        """The sum of the replicas' `value`, of one static shape. Its gradient is the sum of the
        gradients in all replicas."""


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
