"""What a worker of a barrier sends to each ps beside its gradients, in one message: its report, and
from the chief what it orders.

    to the first ps:    kind worker incarnation round examples | order of the stream |
                        order of the update
    to every other ps:  kind worker incarnation round examples | order of the stream

It leaves when the worker has a batch. So when the data has ended, nothing is pushed, not even a
gradient that does not depend on the batch, and a step that fails has begun neither a stream nor an
update.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.device_layout import DeviceLayout
from psclust.replication.sync.barrier_messages import MESSAGE_SHAPE, Message, position, update_shape
from psclust.replication.tf_types import Operation, Tensor

_BEGIN = MESSAGE_SHAPE[0]


@dataclass(frozen=True)
class StepReport:
    """first: device of the first ps. orders: int64 placeholder, zeros by default; None: the worker
    is not the chief. streamed: how many numbers order a stream; 0: there is none."""

    first: str
    to_first: Tensor
    to_others: Tensor
    orders: Tensor | None
    streamed: int

    @classmethod
    def of(
        cls, message: Tensor, layout: DeviceLayout, *, streamed: bool, chief: bool
    ) -> StepReport:
        """In the current device scope, the worker's. message: of its gradient, int64 [5], with the
        examples of its batch."""
        workers = len(layout.workers)
        of_stream = 1 + workers if streamed else 0
        if not chief:
            return cls(layout.parameters, message, message, None, of_stream)
        size = of_stream + update_shape(workers)[0]
        orders = tf.compat.v1.placeholder_with_default(
            tf.zeros([size], tf.int64), [size], name="orders"
        )
        to_others = tf.concat([message, orders[:of_stream]], 0) if streamed else message
        return cls(layout.parameters, tf.concat([message, orders], 0), to_others, orders, of_stream)

    def message(self) -> Tensor:
        """On the first ps."""
        with tf.device(self.first):
            return self.to_first[:_BEGIN]

    def on_each(self, field: str, devices: Iterable[str]) -> dict[str, Tensor]:
        """device -> a field of the message there, int64 scalar."""
        found = {}
        for device in dict.fromkeys(devices):
            with tf.device(device):
                found[device] = self._on(device)[position(Message, field)]
        return found

    def arrived(self, device: str) -> Operation:
        """The op by which it has arrived on a ps."""
        return self.on_each("round", [device])[device].op

    def stream_order(self, device: str) -> Tensor:
        """On a ps, int64 [1 + workers]."""
        with tf.device(device):
            return self._on(device)[_BEGIN : _BEGIN + self.streamed]

    def update_order(self) -> Tensor:
        """On the first ps, see `update_shape`."""
        with tf.device(self.first):
            return self.to_first[_BEGIN + self.streamed :]

    def _on(self, device: str) -> Tensor:
        return self.to_first if device == self.first else self.to_others
