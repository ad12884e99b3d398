"""All-reduce in the middle of a model: every replica passes a value in and gets the sum over all
replicas back.

Batch normalization needs it for the moments of the global batch.

In one graph, towers are built one after another, so the sum does not exist yet when the first tower
needs it. Every tower gets a stand-in, and `connect` feeds the sum into all stand-ins when the last
tower is built:

    tower 0   value 0 --+           +--> stand-in 0 --> rest of tower 0
                        +-> add_n --+
    tower 1   value 1 --+           +--> stand-in 1 --> rest of tower 1

Between graphs, the sum goes through a ps, which holds one accumulator for each replica. A replica
adds its value to all of them, then takes the sum from its own, which waits until all replicas have
added theirs:

                                            on the ps
    worker 0   value 0 --+-----> accumulator 0 = value 0 + value 1 --> worker 0
                         |  +-->
                         +--|--> accumulator 1 = value 0 + value 1 --> worker 1
    worker 1   value 1 -----+-->

No replica takes from another one's accumulator, so no one distributes the sum. Values are stamped
with the barrier's round, and an accumulator drops those of an older round, as it does with
gradients. Adding every value once for each reader is cheap: moments are a few numbers a channel.
Workers with several towers do both: `add_n` over their own towers, then the ps.

The gradient is an all-reduce as well: d(sum of all losses)/d(value of one replica) is the sum of
the gradients of all replicas' sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.tf_types import Accumulator, Operation, Tensor


class _Key(NamedTuple):
    """Which sum of the model, the same in every replica. number: of the forward sum. direction:
    forward or backward. nth: counts the gradients of one forward sum from 1."""

    number: int
    direction: str
    nth: int = 0


@dataclass
class _ReplicaAllReduce:
    """The `AllReduce` of one replica, which numbers the sums in the order in which the model asks
    for them. build: from a key and the replica's value to the sum."""

    index: int
    replicas: int
    build: Callable[[_Key, Tensor], Tensor]
    _asked: int = 0

    def sum(self, value: Tensor) -> Tensor:
        number, self._asked = self._asked, self._asked + 1
        gradients = itertools.count(1)

        def forward(value: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
            def gradient(upstream: Tensor) -> Tensor:
                return self.build(_Key(number, "backward", next(gradients)), upstream)

            return self.build(_Key(number, "forward"), value), gradient

        return tf.custom_gradient(forward)(value)


@dataclass
class InGraphAllReduce:
    """Sums over the `towers` of one graph. replicas: how many towers all graphs have, None if this
    is the only graph. outer: sums over the graphs, None if this is the only one."""

    towers: int
    replicas: int | None = None
    outer: _ReplicaAllReduce | None = None
    _values: dict[_Key, dict[int, Tensor]] = field(default_factory=dict)
    _stand_ins: dict[_Key, dict[int, Tensor]] = field(default_factory=dict)

    def for_tower(self, index: int) -> _ReplicaAllReduce:
        return _ReplicaAllReduce(
            index, self.replicas or self.towers, partial(self._stand_in, index)
        )

    def _stand_in(self, index: int, key: _Key, value: Tensor) -> Tensor:
        self._values.setdefault(key, {})[index] = value
        # An identity of a placeholder, not of a constant, which would be folded away before
        # `connect`.
        stand_in = tf.identity(
            tf.compat.v1.placeholder(value.dtype, _static_shape(value)), name="all_reduce"
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
                # TensorFlow has no public call that replaces an input; the gradients of its own
                # loops use this one.
                stand_in.op._update_input(0, total)


@dataclass
class BetweenGraphAllReduce:
    """Sums over the workers' graphs, in step with the barrier. round: int64 scalar placeholder, the
    barrier's round.
    accumulators: (accumulator, shape) of every sum and replica, including those of the other
    replicas."""

    layout: DeviceLayout
    round: Tensor = field(
        default_factory=lambda: tf.compat.v1.placeholder(tf.int64, [], name="round")
    )
    accumulators: list[tuple[Accumulator, Any]] = field(default_factory=list)

    def for_replica(self, index: int) -> _ReplicaAllReduce:
        return _ReplicaAllReduce(index, len(self.layout.workers), partial(self._through_ps, index))

    def _through_ps(self, index: int, key: _Key, value: Tensor) -> Tensor:
        name, shape = f"psclust/all_reduce/{'_'.join(map(str, key))}", _static_shape(value)
        with tf.device(f"/job:ps/task:{key.number % self.layout.ps}"):
            sums = [
                tf.compat.v1.ConditionalAccumulator(
                    value.dtype, shape=shape, shared_name=f"{name}/{reader}", reduction_type="SUM"
                )
                for reader in range(len(self.layout.workers))
            ]
            self.accumulators += [(accumulator, shape) for accumulator in sums]
            with tf.control_dependencies(
                [accumulator.apply_grad(value, local_step=self.round) for accumulator in sums]
            ):
                return tf.ensure_shape(sums[index].take_grad(len(sums)), shape)

    def release(self, round_: Tensor) -> Operation:
        """The op that lets every replica that waits for a sum go on. It adds ones for the missing
        values: the round will not count, and ones keep the rest of the model finite."""

        def fill(accumulator: Accumulator, shape: Any) -> Sequence[Operation]:
            ones = tf.ones(shape, accumulator.dtype)
            return [accumulator.apply_grad(ones, local_step=round_) for _ in self.layout.workers]

        return tf.group(
            *[op for a, shape in self.accumulators for op in self._at(a, fill, a, shape)]
        )

    def open(self, round_: Tensor) -> Operation:
        """The op after which values older than `round_` are refused."""
        return tf.group(*[self._at(a, a.set_global_step, round_) for a, _ in self.accumulators])

    def counts(self) -> Sequence[Tensor]:
        """For each accumulator, how many values it holds; int32 scalars."""
        return [self._at(a, a.num_accumulated) for a, _ in self.accumulators]

    def discard(self) -> Sequence[Operation]:
        """For each accumulator, the op that empties it."""
        return [self._at(a, a.take_grad, 1).op for a, _ in self.accumulators]

    def _at(self, accumulator: Accumulator, build: Callable[..., Any], *arguments: Any) -> Any:
        with tf.device(accumulator.accumulator_ref.device):
            return build(*arguments)


def _static_shape(value: Tensor) -> Any:
    if not value.shape.is_fully_defined():
        raise UsageError(
            "moving_statistics 'sync' sums tensors of static shape over the replicas; "
            f"this one has shape {value.shape}"
        )
    return value.shape
