"""The variables psclust itself keeps beside a model's: how far the training is and how far every replica has read its data.

They live on the first ps, so they survive every client. `positions` is what makes a restart exact where the data allows it: a replica that
comes back skips the batches whose gradients have been applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import Layout

POSITIONS = "psclust/positions"
DONE = "psclust/done"
STOP = "psclust/stop"
# What a new training does not take over from a checkpoint.
PASSING = frozenset({DONE, STOP})


@dataclass(frozen=True)
class State:
    """global_step: int64 scalar, updates applied. positions: int64 [replicas * inputs], batches applied of each input.
    done: int64 [replicas], 1 where a replica has ended its training. stop: int64 [1], 1 when a replica has asked all to end theirs.
    batches: how many of them an update takes of each input. inputs: how many inputs, side by side in `positions`, each replica reads."""

    global_step: Any
    positions: Any
    done: Any
    stop: Any
    batches: int = 1
    inputs: int = 1

    def advance(self, after: Sequence[Any], replica: int | None = None, batches: Any = None, *, counted: bool = False) -> Any:
        """Counts one update once the ops in `after` have run: of one `replica`, or of each as many batches as `batches`, int64 [replicas],
        says. Returns the new step, an int64 scalar. `counted`: `after` has advanced the global step itself."""
        with tf.device(self.global_step.device), tf.control_dependencies(list(after)):
            if batches is None:
                own = [(replica or 0) * self.inputs + number for number in range(self.inputs)]
                moved = tf.raw_ops.ResourceScatterAdd(
                    resource=self.positions.handle, indices=own, updates=tf.constant([self.batches] * self.inputs, tf.int64)
                )
            else:
                read = tf.repeat(batches, self.inputs) * self.batches
                moved = self.positions.assign_add(read, read_value=False)
            step = self.global_step.read_value() if counted else self.global_step.assign_add(1)
        with tf.device(self.global_step.device), tf.control_dependencies([moved]):
            return tf.identity(step, name="step")

    def staleness(self, step: Any) -> Any:
        """How many updates others have made between the beginning of a run and the update in it that leads to `step`; int64 scalar. The
        global step is read when the variables are: by an op that waits for nothing."""
        with tf.device(self.global_step.device):
            return step - 1 - self.global_step.read_value()

    def lead(self, replica: int, after: Sequence[Any] = ()) -> Any:
        """By how many updates `replica` is ahead of the slowest that has not ended, once the ops in `after` have run; int64 scalar."""
        with tf.device(self.positions.device), tf.control_dependencies(list(after)):
            # The inputs of one replica are read together: the first one's position stands for all.
            clocks = self.positions.read_value()[:: self.inputs]
            going = tf.where(tf.equal(self.done.read_value(), 1), tf.int64.max, clocks)
            return (clocks[replica] - tf.reduce_min(going)) // self.batches

    def mark_done(self, replica: Any, done: Any) -> Any:
        """The op that sets element `replica`, int32 scalar, of `done`, to an int64 scalar."""
        with tf.device(self.done.device):
            return tf.raw_ops.ResourceScatterUpdate(resource=self.done.handle, indices=replica, updates=done)

    def ask_to_stop(self) -> Any:
        """The op that sets `stop`."""
        with tf.device(self.stop.device):
            return self.stop.assign([1], read_value=False)


def create_state(layout: Layout, batches: int = 1, *, inputs: int = 1, together: bool = False) -> State:
    """Creates the counters in the current graph, before the model, so that they never take part in the round robin. together: all
    replicas share one input."""
    replicas = len(layout.workers)
    with tf.device(layout.parameters):
        global_step = tf.compat.v1.train.get_or_create_global_step()
        positions = _counters(POSITIONS, 1 if together else replicas * inputs)
        return State(global_step, positions, _counters(DONE, replicas), _counters(STOP, 1), batches, inputs)


def _counters(name: str, replicas: int) -> Any:
    return tf.compat.v1.get_variable(
        name, [replicas], tf.int64, initializer=tf.compat.v1.zeros_initializer(), trainable=False, use_resource=True
    )
