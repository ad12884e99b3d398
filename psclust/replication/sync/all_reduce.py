"""Sums over the workers' graphs in the middle of a step (over the towers of one graph:
`psclust.replication.towers.tower_all_reduce`).

The sum goes through a ps, which holds one accumulator for each replica. A replica adds its value to
all of them, then takes the sum from its own, which waits until all replicas have added theirs:

                                            on the ps
    worker 0   value 0 --+-----> accumulator 0 = value 0 + value 1 --> worker 0
                         |  +-->
                         +--|--> accumulator 1 = value 0 + value 1 --> worker 1
    worker 1   value 1 -----+-->

No replica takes from another one's accumulator, so nobody has to hand the sum on. A value comes
with its round, and an accumulator refuses values of older rounds, as it does with gradients. To add
every value once for each reader is cheap: moments are a few numbers a channel. Workers with several
towers do both: `add_n` over their own towers, then the ps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import tensorflow as tf

from psclust.replication.by_device import at
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.tf_types import Accumulator, Operation, Tensor
from psclust.replication.towers.tower_all_reduce import AllReduce, SumKey, static_shape


@dataclass
class BetweenGraphAllReduce:
    """Sums over the workers' graphs. round: int64 scalar placeholder, the round of the values.
    accumulators: (accumulator, shape) of every sum for every replica, not only this one."""

    layout: DeviceLayout
    round: Tensor = field(
        default_factory=lambda: tf.compat.v1.placeholder(tf.int64, [], name="round")
    )
    accumulators: list[tuple[Accumulator, Any]] = field(default_factory=list)

    def for_replica(self, index: int) -> AllReduce:
        return AllReduce(index, len(self.layout.workers), partial(self._through_ps, index))

    def _through_ps(self, index: int, key: SumKey, value: Tensor) -> Tensor:
        name, shape = f"psclust/all_reduce/{'_'.join(map(str, key))}", static_shape(value)
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

    @property
    def all(self) -> Sequence[Accumulator]:
        return [accumulator for accumulator, _ in self.accumulators]

    def release(self, round_: Tensor) -> Operation:
        """The op that lets every replica that waits for a sum go on. It adds ones for the missing
        values: the round will not count, and ones keep the rest of the model finite."""

        def fill(accumulator: Accumulator, shape: Any) -> Sequence[Operation]:
            ones = tf.ones(shape, accumulator.dtype)
            return [accumulator.apply_grad(ones, local_step=round_) for _ in self.layout.workers]

        return tf.group(
            *[
                op
                for a, shape in self.accumulators
                for op in at(a.accumulator_ref.device, fill, a, shape)
            ]
        )
