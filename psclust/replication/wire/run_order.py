"""Has the tasks run the parts of a step one after another, so that a client may begin the next
while one is under way (`runtime/runs_in_order.c`).

    client     begin 1   begin 2              end of 1: begin 3            end of 2: begin 4
    a task               part of 1 ---------> part of 2 -----------------> part of 3

Every task begins its part of a step when it has ended that of the step before. It waits for no word
of the client, and of the other tasks for what they send alone. Otherwise the end of a step, what
the client does between two, and the beginning of the next come one after another, while nothing is
on the wire.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication import kernels
from psclust.replication.tf_types import Operation, Tensor
from psclust.replication.wire.own_wire import own_wire


@dataclass(frozen=True)
class RunOrder:
    """number: of the graph, among those of a process. in_order: one bool for each task that sends
    or receives: whether it runs its parts of all later runs of what runs this in order."""

    number: int
    in_order: Sequence[Tensor]

    @property
    def ops(self) -> Sequence[Operation]:
        """What a step that is to be in order also runs."""
        return [each.op for each in self.in_order]


def order_runs() -> RunOrder | None:
    """Of the current graph. None without psclust's own wire: by TensorFlow's, the beginnings of two
    runs may overtake each other."""
    wire = own_wire(tf.compat.v1.get_default_graph())
    if wire is None:
        return None
    number, in_order = secrets.randbits(62), []
    for task in dict.fromkeys(task for pair in wire.pairs for task in pair):
        with tf.control_dependencies(None), tf.device(task):
            in_order.append(kernels.in_use().psclust_in_order(number=number))
    return RunOrder(number, in_order)
