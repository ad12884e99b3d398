"""Large gradients of a worker leave for the ps one after another, as backpropagation makes them.

Tensors that leave together share the wire, so all arrive late, and variables can only come back
late. In turn, the first arrives soon, and its variable comes back while the others still leave. A
few are always under way, so that the wire is not idle until the worker learns that one has arrived:

    together   | g3 g2 g1 g3 g2 g1 g3 g2 g1 |
                                            | v3 v2 v1
    in turn    | g3 g2 g3 g2 g3 g1 g2 g1 g1 |
                              |  v3  |  v2  | v1

All ps get on alike, too. Workers share the links of the ps, and the link of one ps may carry one
worker's gradients for a while, the link of another ps another worker's. A synchronous update needs
those of all, so none would be complete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.device_layout import host_of
from psclust.replication.tf_types import Tensor

# So much may be under way to a ps, but always two tensors. By so much, too, what has left for a ps
# may be ahead of what has arrived on another. With more, the first tensor arrived late on a link of
# 1 Gbit/s.
_BYTES_UNDER_WAY = 1_000_000


@dataclass(frozen=True)
class Leaving:
    """A tensor on a worker that is to leave for the ps `device`. bytes: what it takes on the wire.
    pack: makes what travels in its stead, when its turn has come, so that the first does not wait
    until all are packed; None if it travels as it is."""

    tensor: Tensor
    device: str
    bytes: int
    pack: Callable[[Tensor], Tensor] | None = None

    def packed(self, tensor: Tensor) -> Tensor:
        return self.pack(tensor) if self.pack else tensor


def leave_in_turn(leaving: Sequence[Leaving], worker: str) -> list[Tensor]:
    """Sends them from the device `worker`. Returns for each what has arrived on its ps, still
    packed."""
    made = {
        operation.name: number
        for number, operation in enumerate(tf.compat.v1.get_default_graph().get_operations())
    }
    arrived: dict[int, Tensor] = {}
    queues: dict[str, _Queue] = {}
    for one in leaving:
        queues.setdefault(one.device, _Queue()).total += one.bytes
    for index in sorted(range(len(leaving)), key=lambda index: made[leaving[index].tensor.op.name]):
        one = leaving[index]
        own = queues[one.device]
        others = [queue.as_far_as(own) for queue in queues.values() if queue is not own]
        awaited = [
            arrived[other].op for other in (own.awaited(one.bytes), *others) if other is not None
        ]
        with tf.device(host_of(worker)), tf.control_dependencies(awaited):
            tensor = tf.identity(one.tensor, name="in_turn")
        packed = one.packed(tensor)
        with tf.device(one.device):
            arrived[index] = tf.identity(packed, name="arrived_in_turn")
        own.add(index, one.bytes)
    return [arrived[index] for index in range(len(leaving))]


class _Queue:
    """The tensors that leave for one ps, one after another. total: the bytes of all, also of those
    that are not added yet."""

    def __init__(self) -> None:
        self.total = 0
        self._indices: list[int] = []
        self._ends: list[int] = []

    def add(self, index: int, count: int) -> None:
        self._indices.append(index)
        self._ends.append(self._end + count)

    @property
    def _end(self) -> int:
        return self._ends[-1] if self._ends else 0

    def awaited(self, count: int) -> int | None:
        """The tensor that has to arrive before one of `count` bytes may leave; None if none has
        to."""
        for position in range(len(self._ends) - 2, -1, -1):
            if self._end - self._ends[position] + count >= _BYTES_UNDER_WAY:
                return self._indices[position]
        return None

    def as_far_as(self, other: _Queue) -> int | None:
        """The tensor of this queue that has to arrive before the next of `other` may leave, so that
        of both about the same share has arrived; None if none has to."""
        position = bisect_right(
            self._ends, (other._end - _BYTES_UNDER_WAY) * self.total // other.total
        )
        return self._indices[position - 1] if position else None
