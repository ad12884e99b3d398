"""All-reduce in the middle of a model, over the towers of one graph: every replica passes a value
in and gets the sum over all replicas back. Batch normalization needs it for the moments of the
global batch.

Towers are built one after another, so the sum does not exist yet when the first tower needs it.
Every tower gets a stand-in, and `connect` feeds the sum into all stand-ins when the last tower is
built:

    tower 0   value 0 --+           +--> stand-in 0 --> rest of tower 0
                        +-> add_n --+
    tower 1   value 1 --+           +--> stand-in 1 --> rest of tower 1

The gradient is an all-reduce as well: d(sum of all losses)/d(value of one replica) is the sum of
the gradients of all replicas' sums. Between graphs, see `psclust.replication.sync.all_reduce`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.private_tensorflow import set_input
from psclust.replication.tf_types import Tensor


class SumKey(NamedTuple):
    """Which sum of the model, the same in every replica. number: of the forward sum. direction:
    forward or backward. nth: counts the gradients of one forward sum from 1."""

    number: int
    direction: str
    nth: int = 0


@dataclass
class AllReduce:
    """One replica's access to sums over the replicas of a synchronous step, in the middle of the
    model; it numbers them in the order in which the model asks for them. build: from a key and the
    replica's value to the sum."""

    index: int
    replicas: int
    build: Callable[[SumKey, Tensor], Tensor]
    _asked: int = 0

    def sum(self, value: Tensor) -> Tensor:
        """The sum of the replicas' `value`, of one static shape. Its gradient is the sum of the
        gradients in all replicas."""
        number, self._asked = self._asked, self._asked + 1
        gradients = itertools.count(1)

        def forward(value: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
            def gradient(upstream: Tensor) -> Tensor:
                return self.build(SumKey(number, "backward", next(gradients)), upstream)

            return self.build(SumKey(number, "forward"), value), gradient

        return tf.custom_gradient(forward)(value)


@dataclass
class InGraphAllReduce:
    """Sums over the `towers` of one graph. replicas: how many towers all graphs have, None if this
    is the only graph. outer: sums over the graphs, None if this is the only one."""

    towers: int
    replicas: int | None = None
    outer: AllReduce | None = None
    _values: dict[SumKey, dict[int, Tensor]] = field(default_factory=dict)
    _stand_ins: dict[SumKey, dict[int, Tensor]] = field(default_factory=dict)

    def for_tower(self, index: int) -> AllReduce:
        return AllReduce(index, self.replicas or self.towers, partial(self._stand_in, index))

    def _stand_in(self, index: int, key: SumKey, value: Tensor) -> Tensor:
        self._values.setdefault(key, {})[index] = value
        # An identity of a placeholder, not of a constant, which would be folded away before
        # `connect`.
        stand_in = tf.identity(
            tf.compat.v1.placeholder(value.dtype, static_shape(value)), name="all_reduce"
        )
        self._stand_ins.setdefault(key, {})[index] = stand_in
        return stand_in

    def connect(self) -> None:
        """Feeds the sums into the stand-ins, when all towers and their gradients are built. Raises
        UsageError if the towers differ."""
        for key, values in self._values.items():
            if key.direction == "forward" and len(values) != self.towers:
                raise UsageError(
                    f"model_fn normalizes a batch in only {len(values)} of {self.towers} towers; "
                    "with moving_statistics 'sync' all towers must build the same layers"
                )
            with tf.name_scope("all_reduce"):
                total = tf.add_n([values[index] for index in sorted(values)])
                if self.outer is not None:
                    total = self.outer.build(key, total)
            for stand_in in self._stand_ins[key].values():
                # loops use this one.
                set_input(stand_in.op, 0, total)


def static_shape(value: Tensor) -> Any:
    if not value.shape.is_fully_defined():
        raise UsageError(
            "moving_statistics 'sync' sums tensors of static shape over the replicas; "
            f"this one has shape {value.shape}"
        )
    return value.shape
