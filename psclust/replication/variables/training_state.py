"""psclust's own variables: the global step, the position of every replica in its data, and flags
that end the training.

They are on the first ps, so they survive every client. `positions` makes a restart exact if the
data allows it: a restarted replica skips the batches whose gradients were applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import tensorflow as tf

from psclust.replication.device_layout import DeviceLayout
from psclust.replication.parts.dispenser import OF_CLAIMS, SLOTS, Dispenser, create_dispenser
from psclust.replication.parts.part_list import PartList
from psclust.replication.tf_types import Operation, Tensor, Variable

POSITIONS = "psclust/positions"
DONE = "psclust/done"
STOP = "psclust/stop"
# Variables that a new training does not restore from a checkpoint.
PASSING = frozenset({DONE, STOP}) | OF_CLAIMS


class End(IntEnum):
    """How far a replica is with the end of its training: an element of the variable `done`. An end
    counts once a checkpoint has all steps of the replica; until then a lost ps may undo it, and the
    replica stays to train again what is missing."""

    TRAINS = 0
    ENDED = 1
    """Its data has ended, or the wanted step is reached."""
    SAVED = 2
    """And a checkpoint has its steps, as the chief says."""
    LEFT = 3
    """And it has read that, and exits."""
    SILENT = 4
    """The chief goes on without it, as it has not answered."""
    ABSENT = 5
    """Parts are handed out, and no worker has this place."""


class Now(NamedTuple):
    """Variables of a State, or their values: what a session's run of it returns."""

    global_step: Any
    positions: Any
    done: Any
    stop: Any


@dataclass(frozen=True)
class State:
    """global_step: int64 scalar, updates applied. positions: int64 [replicas * inputs], batches
    applied of each input.
    done: int64 [replicas], the `End` of each. stop: int64 [1], 1 if a replica asked all others to
    end theirs, 2 to leave while it is not over.
    batches: how many batches of each input an update takes. inputs: how many inputs each replica
    has, side by side in `positions`. dispenser: what hands out the parts of the data; then
    `positions` are those of the parts, and `done` has a place for every worker that may come."""

    global_step: Variable
    positions: Variable
    done: Variable
    stop: Variable
    batches: int = 1
    inputs: int = 1
    dispenser: Dispenser | None = None

    @property
    def now(self) -> Now:
        """What clients look at between steps, always all of it: TensorFlow takes 10 to 20 ms for
        the first run of each set of fetches. Without `positions` and `done` if there are thousands
        of parts and places."""
        if self.dispenser is not None:
            return Now(self.global_step, self.stop, self.stop, self.stop)
        return Now(self.global_step, self.positions, self.done, self.stop)

    def advance(
        self,
        after: Sequence[Operation],
        replica: int | None = None,
        batches: Tensor | None = None,
        *,
        taken: Tensor | None = None,
        counted: bool = False,
    ) -> Tensor:
        """Counts one update after the ops in `after`: of one `replica`, or with `batches`, int64
        [replicas], of so many of each; where parts are handed out, of the batches `taken`, see
        `Dispenser.count`. Returns the new step, int64 scalar. counted: `after` has advanced the
        global step already."""
        # Both wait for `batches`: if the client dies as a run of it begins, a server still executes
        # what needs nothing that is fed.
        fed = [] if batches is None else [batches.op]
        with tf.device(self.global_step.device), tf.control_dependencies([*after, *fed]):
            if self.dispenser is not None:
                assert taken is not None
                moved = self.dispenser.count(tf.identity(taken))
            elif batches is None:
                own = [(replica or 0) * self.inputs + number for number in range(self.inputs)]
                moved = tf.raw_ops.ResourceScatterAdd(
                    resource=self.positions.handle,
                    indices=own,
                    updates=tf.constant([self.batches] * self.inputs, tf.int64),
                )
            else:
                read = tf.repeat(batches, self.inputs) * self.batches
                moved = self.positions.assign_add(read, read_value=False)
            step = self.global_step.read_value() if counted else self.global_step.assign_add(1)
        with tf.device(self.global_step.device), tf.control_dependencies([moved]):
            return tf.identity(step, name="step")

    def begun(self) -> Tensor:
        """The global step at the beginning of a run, int64 scalar. Reads it like the variables,
        with an op that waits for no other; the run's own update must wait for it, or it may read
        what that has made of the step."""
        with tf.device(self.global_step.device):
            return self.global_step.read_value()

    def staleness(self, begun: Tensor, step: Tensor) -> Tensor:
        """The number of updates by other replicas between the beginning of a run and its own update
        to `step`; int64 scalar. 0 if a train_op of the user's, which does not wait for `begun`, was
        faster."""
        with tf.device(self.global_step.device):
            return tf.maximum(step - 1 - begun, 0)

    def staleness_of_copies(self, step: Tensor, replica: int) -> Tensor:
        """The same for a `replica` that computes from copies, which its update before has
        refreshed: the updates by others since then. 0 if a checkpoint with fewer steps has been
        restored in between."""
        with tf.device(self.global_step.device):
            before = tf.compat.v1.Variable(
                self.global_step.read_value,
                trainable=False,
                collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
                name=f"psclust/refreshed_{replica}",
                use_resource=True,
                dtype=tf.int64,
            )
            stale = tf.maximum(step - 1 - before.read_value(), 0)
            with tf.control_dependencies([stale]):
                kept = before.assign(step, read_value=False)
            with tf.control_dependencies([kept]):
                return tf.identity(stale)

    def lead(self, replica: int, after: Sequence[Operation] = ()) -> Tensor:
        """The number of updates by which `replica` is ahead of the slowest active one, after the
        ops in `after`; int64 scalar."""
        with tf.device(self.positions.device), tf.control_dependencies(list(after)):
            # A replica reads its inputs in step, so all have the position of the first.
            clocks = self.positions.read_value()[:: self.inputs]
            going = tf.where(tf.equal(self.done.read_value(), End.TRAINS), clocks, tf.int64.max)
            return (clocks[replica] - tf.reduce_min(going)) // self.batches

    def mark(self, replica: Tensor, end: Tensor) -> Operation:
        """The op that sets element `replica`, int32 scalar, of the variable `done` to `end`, int64
        scalar."""
        with tf.device(self.done.device):
            return tf.raw_ops.ResourceScatterUpdate(
                resource=self.done.handle, indices=replica, updates=end
            )

    def ask_to_stop(self, value: Tensor) -> Operation:
        """The op that sets `stop` to `value`, int64 [1]."""
        with tf.device(self.stop.device):
            return self.stop.assign(value, read_value=False)


def create_state(
    layout: DeviceLayout,
    batches: int = 1,
    *,
    inputs: int = 1,
    together: bool = False,
    parts: PartList | None = None,
) -> State:
    """Creates the variables in the current graph, before the model, so round robin never counts
    them. together: all replicas split one input. parts: are handed out to the replicas."""
    replicas = len(layout.workers)
    with tf.device(layout.parameters):
        global_step = tf.compat.v1.train.get_or_create_global_step()
        if parts is not None:
            dispenser = create_dispenser(parts)
            done, stop = _counters(DONE, SLOTS, End.ABSENT), _counters(STOP, 1)
            return State(global_step, dispenser.batches, done, stop, batches, inputs, dispenser)
        positions = _counters(POSITIONS, 1 if together else replicas * inputs)
        return State(
            global_step, positions, _counters(DONE, replicas), _counters(STOP, 1), batches, inputs
        )


def _counters(name: str, replicas: int, initial: int = 0) -> Variable:
    return tf.compat.v1.get_variable(
        name,
        [replicas],
        tf.int64,
        initializer=tf.compat.v1.constant_initializer(initial),
        trainable=False,
        use_resource=True,
    )
