"""What hands out the parts of the data, and knows how far each is: variables on the first ps.

Each part has the number of its batches that updates have used, counted in the very step that used
them, and the number of epochs that it has been through. Both are saved with the weights, so that a
checkpoint knows which examples are in them. A worker claims a part; who holds it is not saved.

    claim    a part that nobody holds, of those that are behind; where its holder died, from the
             batch on that no update has used
    finish   it has been read to its end: the next epoch may begin
    join     a process takes a worker's place, and what its predecessor held is free again
    beat     it is still there; who is not heard of any more is swept away, with what it held

Each of these is one run, under a lock on the ps. A worker that dies in it leaves nothing half done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.parts.part_list import PartList
from psclust.replication.tf_types import Operation, Tensor, Variable

PART_BATCHES = "psclust/part_batches"
PART_EPOCHS = "psclust/part_epochs"
HOLDERS = "psclust/part_holders"
CLAIMANTS = "psclust/claimants"
SEEN = "psclust/seen"
# Variables that no checkpoint has.
OF_CLAIMS = frozenset({HOLDERS, CLAIMANTS, SEEN})

SLOTS = 4096
"""The most workers that a run may have."""

_NOBODY = 0
_NONE = -1
_LAST = tf.int64.max


@dataclass(frozen=True)
class Dispenser:
    """batches, epochs: int64 [parts]. holders: int64 [parts], the number of the process that holds
    each, 0 for none. claimants: int64 [SLOTS], the process in each worker's place; seen: float64
    [SLOTS], when it was last heard of, by the clock of the ps."""

    parts: PartList
    batches: Variable
    epochs: Variable
    holders: Variable
    claimants: Variable
    seen: Variable

    def count(self, taken: Tensor) -> Operation:
        """The op that counts batches as used. taken: int64 [batches, 2], the part of each and 1, or
        0 for padding."""
        return tf.raw_ops.ResourceScatterAdd(
            resource=self.batches.handle, indices=taken[:, 0], updates=taken[:, 1]
        )


def create_dispenser(parts: PartList) -> Dispenser:
    """Creates the variables on the CPU of the current device."""
    count = len(parts.parts)
    with tf.device("/device:CPU:0"):
        return Dispenser(
            parts,
            _zeros(PART_BATCHES, count),
            _zeros(PART_EPOCHS, count),
            _zeros(HOLDERS, count),
            _zeros(CLAIMANTS, SLOTS),
            _zeros(SEEN, SLOTS, tf.float64),
        )


def _zeros(name: str, size: int, dtype: Any = tf.int64) -> Variable:
    return tf.compat.v1.get_variable(
        name,
        [size],
        dtype,
        initializer=tf.compat.v1.zeros_initializer(),
        trainable=False,
        use_resource=True,
    )


@dataclass(frozen=True)
class DispenserOps:
    """Placeholders: slot, int32 scalar, a worker's number; me, int64 scalar, the number of its
    process; most: int32 scalar; parts: int64 [any]; patience: float64 scalar, seconds.

    claim: (int64 [any, 2], `most` parts for `me`, or as many as there are in the epoch that is
    behind, and how many batches of each are used; bool scalar, whether others still have to finish
    some). finish: `parts` of `me` have been read to their end. join: `me` takes the place `slot`;
    leave: gives it up. beat: bool scalar, whether `me` still has the place. sweep: int64 [any], the
    places of processes that were not heard of for `patience`, now empty. vacate: empties the places
    from `slot` on.
    begun: bool scalar, whether any batch has been used.
    """

    slot: Tensor
    me: Tensor
    most: Tensor
    parts: Tensor
    patience: Tensor
    claim: tuple[Tensor, Tensor]
    finish: Operation
    join: Operation
    leave: Operation
    beat: Tensor
    sweep: Tensor
    vacate: Operation
    begun: Tensor


def dispenser_ops(dispenser: Dispenser, client: str) -> DispenserOps:
    """client: the device of the process that runs them."""
    locked = _Locked(dispenser)
    with tf.device(client):
        slot = tf.compat.v1.placeholder(tf.int32, [], name="slot")
        me = tf.compat.v1.placeholder(tf.int64, [], name="me")
        most = tf.compat.v1.placeholder(tf.int32, [], name="most")
        parts = tf.compat.v1.placeholder(tf.int64, [None], name="parts")
        patience = tf.compat.v1.placeholder(tf.float64, [], name="patience")
    with tf.device(dispenser.holders.device):
        lock = tf.CriticalSection(name="psclust/parts", shared_name="psclust/parts")

        def run(work: Callable[[], Any]) -> Any:
            return lock.execute(work, exclusive_resource_access=False)

        ops = {
            "claim": run(lambda: locked.claim(me, most)),
            "finish": run(lambda: locked.finish(parts, me)),
            "join": run(lambda: locked.join(slot, me)),
            "leave": run(lambda: locked.leave(slot, me)),
            "beat": run(lambda: locked.beat(slot, me)),
            "sweep": run(lambda: locked.sweep(slot, patience)),
            "vacate": run(lambda: locked.vacate(slot)),
        }
        begun = tf.reduce_any(dispenser.batches.read_value() + dispenser.epochs.read_value() > 0)
    return DispenserOps(slot, me, most, parts, patience, begun=begun, **ops)


@dataclass(frozen=True)
class _Locked:
    """What is done while nobody else claims."""

    state: Dispenser

    def claim(self, me: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        state, limit = self.state, self.state.parts.epochs
        holders, epochs = state.holders.read_value(), state.epochs.read_value()
        unfinished = epochs < (_LAST if limit is None else limit)
        free = tf.equal(holders, _NOBODY) & unfinished
        epoch = tf.reduce_min(tf.where(free, epochs, _LAST))
        behind = free & tf.equal(epochs, epoch)
        count = tf.minimum(most, tf.math.count_nonzero(behind, dtype=tf.int32))
        # Of equal ones the first.
        order = tf.where(behind, -self._order(epoch), -_LAST)
        found = tf.cast(tf.math.top_k(order, count).indices, tf.int64)
        used = tf.gather(state.batches.read_value(), found)
        of_others = unfinished & tf.not_equal(holders, me) & tf.logical_not(free)
        taken = _put(state.holders, found, tf.zeros_like(found) + me)
        with tf.control_dependencies([taken]):
            return tf.stack([found, used], 1), tf.reduce_any(of_others)

    def _order(self, epoch: Tensor) -> Tensor:
        count, parts = len(self.state.parts.parts), self.state.parts
        if not parts.shuffled:
            return tf.range(count, dtype=tf.int64)
        return tf.random.stateless_uniform(
            [count], [tf.constant(parts.seed, tf.int64), epoch], 0, _LAST, tf.int64
        )

    def finish(self, parts: Tensor, me: Tensor) -> Operation:
        mine = tf.boolean_mask(
            parts, tf.equal(tf.gather(self.state.holders.read_value(), parts), me)
        )
        return self._through(mine)

    def _through(self, parts: Tensor) -> Operation:
        """Parts that end their epoch."""
        state, none = self.state, tf.zeros_like(parts)
        return tf.group(
            tf.raw_ops.ResourceScatterAdd(
                resource=state.epochs.handle, indices=parts, updates=none + 1
            ),
            _put(state.batches, parts, none),
            _put(state.holders, parts, none),
        )

    def join(self, slot: Tensor, me: Tensor) -> Operation:
        freed = self._free(tf.equal(self.state.holders.read_value(), self._at(slot)))
        with tf.control_dependencies([freed]):
            return tf.group(_put(self.state.claimants, [slot], [me]), self._seen(slot))

    def leave(self, slot: Tensor, me: Tensor) -> Operation:
        freed = self._free(tf.equal(self.state.holders.read_value(), me))
        kept = self._at(slot)
        now = tf.where(tf.equal(kept, me), tf.constant(_NOBODY, tf.int64), kept)
        return tf.group(freed, _put(self.state.claimants, [slot], [now]))

    def beat(self, slot: Tensor, me: Tensor) -> Tensor:
        with tf.control_dependencies([self._seen(slot)]):
            return tf.equal(self._at(slot), me)

    def sweep(self, own: Tensor, patience: Tensor) -> Tensor:
        """Of all places but the `own`."""
        claimants = self.state.claimants.read_value()
        silent = tf.not_equal(claimants, _NOBODY) & (
            tf.timestamp() - self.state.seen.read_value() > patience
        )
        places = tf.reshape(tf.where(silent), [-1])
        places = tf.boolean_mask(places, tf.not_equal(places, tf.cast(own, tf.int64)))
        with tf.control_dependencies([self._empty(places)]):
            return tf.identity(places)

    def vacate(self, first: Tensor) -> Operation:
        return self._empty(tf.range(tf.cast(first, tf.int64), SLOTS, dtype=tf.int64))

    def _empty(self, places: Tensor) -> Operation:
        """Frees what the processes in these places hold."""
        gone = tf.gather(self.state.claimants.read_value(), places)
        gone = tf.boolean_mask(gone, tf.not_equal(gone, _NOBODY))
        holders = self.state.holders.read_value()
        freed = self._free(tf.reduce_any(tf.equal(holders[:, None], gone[None, :]), 1))
        with tf.control_dependencies([freed]):
            return _put(self.state.claimants, places, tf.zeros_like(places))

    def _free(self, held: Tensor) -> Operation:
        """What a dead process held, bool [parts], may be claimed again, or, if no example is to be
        used twice, is left as it is if it was begun."""
        state = self.state
        held &= tf.not_equal(state.holders.read_value(), _NOBODY)
        parts = tf.reshape(tf.where(held), [-1])
        freed = _put(state.holders, parts, tf.zeros_like(parts))
        if not state.parts.once:
            return freed
        begun = tf.boolean_mask(parts, tf.gather(state.batches.read_value(), parts) > 0)
        return tf.group(freed, self._through(begun))

    def _at(self, slot: Tensor) -> Tensor:
        return self.state.claimants.read_value()[slot]

    def _seen(self, slot: Tensor) -> Operation:
        return _put(self.state.seen, [slot], [tf.timestamp()])


def _put(variable: Variable, indices: Sequence[Any] | Tensor, values: Any) -> Operation:
    return tf.raw_ops.ResourceScatterUpdate(
        resource=variable.handle, indices=indices, updates=values
    )
