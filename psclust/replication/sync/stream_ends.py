"""How the update that counts a step learns that its stream has ended: by a word on the first ps, so that no chief is asked in between.

    chief   stream of round r ----+                         update of round r
                                  |                           ^
    ps      v1, v2 ... written -> r ...... messages there --> r -> step counted, tokens

An update that an earlier chief has left waiting there would take the word of the next stream. So the successor, when its fence is set and
no update of an older round is admitted any more, sends a word that has the one that waits fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Operation, Tensor
from psclust.replication.variables.cell import Cell


@dataclass(frozen=True)
class StreamEnds:
    """rounds: of the streams that have ended, and are not counted, on `device`."""

    device: str
    rounds: Any

    @classmethod
    def on(cls, device: str) -> StreamEnds:
        """Those of all graphs, which share them."""
        with tf.device(device):
            return cls(device, tf.queue.FIFOQueue(-1, [tf.int64], [[]], shared_name="psclust/streamed", name="streamed"))

    def tell(self, order: Tensor, taken: Sequence[Tensor], stream: Sequence[Operation]) -> Operation:
        """Tells the end of the ops in `stream`, unless gradients of another round than the `order` says were `taken`."""
        with tf.device(self.device), tf.control_dependencies(stream):
            round_ = tf.identity(order)[:1]
            own = tf.reduce_all(tf.stack([tf.reduce_all(tf.equal(rounds, round_)) for rounds in taken]))
            return self.rounds.enqueue_many(round_[: tf.cast(own, tf.int32)])

    def await_one(self, tag: Cell) -> Operation:
        """Waits for the end of the next stream. Fails if it is not the last that has begun, whose round is the `tag`."""
        with tf.device(self.device):
            round_ = self.rounds.dequeue()
            with tf.control_dependencies([round_]):
                return tf.raw_ops.Assert(condition=tf.equal(round_, tag.read()), data=["the stream of an earlier chief"])

    def fail(self, after: Sequence[Operation]) -> Operation:
        """Has the update that waits fail, after some ops; if none does, the next."""
        with tf.device(self.device), tf.control_dependencies(after):
            return self.rounds.enqueue(tf.constant(0, tf.int64))

    def forget(self) -> Operation:
        """Drops all that no update has taken, for when the rounds they are of are void."""
        with tf.device(self.device):
            return self.rounds.dequeue_many(self.rounds.size()).op
