"""How the update that counts a step learns that its stream has ended: by a word on the first ps, so
that no chief is asked in between.

    chief   stream of round r ----+                         update of round r
                                  |                           ^
    ps      v1, v2 ... written -> r ...... messages there --> r -> step counted, tokens

An update that an earlier chief has left waiting there would take the word of the next stream. So
the successor, when its fence is set and no update of an older round is admitted any more, sends a
word that has the one that waits fail.
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
            return cls(
                device,
                tf.queue.FIFOQueue(
                    -1, [tf.int64], [[]], shared_name="psclust/streamed", name="streamed"
                ),
            )

    def tell(self, round_: Tensor, taken: Sequence[Tensor]) -> tuple[Operation, Tensor, Tensor]:
        """(the op that tells the end of a stream, when there are the rounds of gradients that were
        `taken`, unless one is not `round_`; a bool scalar, whether all are; the round, int64
        scalar, which exists only if one is not)."""
        with tf.device(self.device):
            own = tf.reduce_all(tf.equal(tf.concat(taken, 0), round_))
            other, its_own = tf.raw_ops.Switch(data=round_, pred=own)
            return self.rounds.enqueue(its_own), own, other

    def await_one(self, tag: Cell) -> Operation:
        """Waits for the end of the next stream. Fails if it is not the last that has begun, whose
        round is the `tag`."""
        with tf.device(self.device):
            round_ = self.rounds.dequeue()
            with tf.control_dependencies([round_]):
                return tf.raw_ops.Assert(
                    condition=tf.equal(round_, tag.read()), data=["the stream of an earlier chief"]
                )

    def fail(self, after: Sequence[Operation]) -> Operation:
        """Has the update that waits fail, after some ops; if none does, the next."""
        with tf.device(self.device), tf.control_dependencies(after):
            return self.rounds.enqueue(tf.constant(0, tf.int64))

    def forget(self) -> Operation:
        """Drops all that no update has taken, for when the rounds they are of are void."""
        with tf.device(self.device):
            return self.rounds.dequeue_many(self.rounds.size()).op
