"""Large gradients of a worker leave for the ps one after another, in the order in which
backpropagation makes them.

Tensors that leave together share the wire, so all arrive late, and variables can only come back
late. In turn, the first arrives soon, and its variable comes back while the others still leave. A
few are always under way, so that the wire is not idle until the ps has said that one has arrived:

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

# To a ps at a time, but two tensors at least; and by as much may what has left for a ps be ahead of
# what has arrived on another. With more, the first arrived late on a link of 1 Gbit/s.
_BYTES_UNDER_WAY = 1_000_000


@dataclass(frozen=True)
class Leaving:
    """A tensor on a worker that is to leave for the ps `device`, and the bytes that it takes on the
    wire. pack: makes what travels of it, when its turn has come: the first does not wait until all
    are packed. None: it travels as it is."""

    tensor: Tensor
    device: str
    bytes: int
    pack: Callable[[Tensor], Tensor] | None = None

    def packed(self, tensor: Tensor) -> Tensor:
        return self.pack(tensor) if self.pack else tensor


def leave_in_turn(leaving: Sequence[Leaving], worker: str) -> list[Tensor]:
    """Sends them from the device `worker`. Returns them, as they travelled, on their ps, in the
    same order."""
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
    """Which tensors leave for a ps, in this order. total: the bytes of all, with those that are
    still to be added."""

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
        """Which has to arrive until one of `count` bytes may leave after them; None if none."""
        for position in range(len(self._ends) - 2, -1, -1):
            if self._end - self._ends[position] + count >= _BYTES_UNDER_WAY:
                return self._indices[position]
        return None

    def as_far_as(self, other: _Queue) -> int | None:
        """Which has to arrive until the next may leave for the ps of `other`, so that shares of the
        totals stay alike; None if none."""
        position = bisect_right(
            self._ends, (other._end - _BYTES_UNDER_WAY) * self.total // other.total
        )
        return self._indices[position - 1] if position else None
