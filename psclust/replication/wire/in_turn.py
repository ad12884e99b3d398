"""Large gradients of a worker leave for a ps one after another, in the order in which backpropagation makes them.

Tensors that leave together share the wire, so all arrive late, and variables can only come back late. In turn, the first arrives soon, and
its variable comes back while the others still leave. A few are always under way, so that the wire is not idle until the ps has said that
one has arrived:

    together   | g3 g2 g1 g3 g2 g1 g3 g2 g1 |                         in turn    | g3 g2 g3 g2 g3 g1 g2 g1 g1 |
                                            | v3 v2 v1                                          |  v3  |  v2  | v1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.device_layout import host_of
from psclust.replication.tf_types import Operation, Tensor

# To a ps at a time, but two tensors at least. With less a link of 1 Gbit/s was idle at times, with more the first arrived late.
_BYTES_UNDER_WAY = 4_000_000


@dataclass(frozen=True)
class Leaving:
    """A tensor on a worker that is to leave for the ps `device`, and the bytes that it takes on the wire. pack: makes what travels of it,
    when its turn has come: the first does not wait until all are packed. None: it travels as it is."""

    tensor: Tensor
    device: str
    bytes: int
    pack: Callable[[Tensor], Tensor] | None = None

    def packed(self, tensor: Tensor) -> Tensor:
        return self.pack(tensor) if self.pack else tensor


def leave_in_turn(leaving: Sequence[Leaving], worker: str) -> list[Tensor]:
    """Sends them from the device `worker`. Returns them, as they travelled, on their ps, in the same order."""
    made = {operation.name: number for number, operation in enumerate(tf.compat.v1.get_default_graph().get_operations())}
    arrived: dict[int, Tensor] = {}
    turns: dict[str, list[int]] = {}
    for index in sorted(range(len(leaving)), key=lambda index: made[leaving[index].tensor.op.name]):
        one = leaving[index]
        turn = turns.setdefault(one.device, [])
        awaited = _awaited([leaving[other].bytes for other in turn], one.bytes)
        first: list[Operation] = [] if awaited is None else [arrived[turn[awaited]].op]
        with tf.device(host_of(worker)), tf.control_dependencies(first):
            tensor = tf.identity(one.tensor, name="in_turn")
        packed = one.packed(tensor)
        with tf.device(one.device):
            arrived[index] = tf.identity(packed, name="arrived_in_turn")
        turn.append(index)
    return [arrived[index] for index in range(len(leaving))]


def _awaited(before: Sequence[int], own: int) -> int | None:
    """Which of the tensors of so many bytes `before` it has to arrive until one of `own` bytes may leave; None if none."""
    under_way = own
    for position in range(len(before) - 1, 0, -1):
        under_way += before[position]
        if under_way >= _BYTES_UNDER_WAY:
            return position - 1
    return None
