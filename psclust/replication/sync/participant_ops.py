"""The ops of a worker of the barrier: compute a gradient, push it, send its message, take the next
token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.by_device import at, moved
from psclust.replication.device_layout import DeviceLayout, host_of
from psclust.replication.passes.local_copies import pull
from psclust.replication.passes.sending import send_gradients
from psclust.replication.settings import Settings
from psclust.replication.sync.accumulators import push
from psclust.replication.sync.backup_ops import own_accumulators
from psclust.replication.sync.barrier_channel import Channel
from psclust.replication.sync.messages import MESSAGE_SHAPE, Kind, Message, Token, position
from psclust.replication.sync.stamps import bring_updated
from psclust.replication.tf_types import Operation, Tensor
from psclust.replication.towers.tower import Tower
from psclust.replication.variables.cell import Cell, Mark, cell


@dataclass(frozen=True)
class ParticipantOps:
    """kind, incarnation, round: int64 scalar placeholders for the fields of a message.

    step: computes and pushes one gradient, sends its message, and waits for the next token. It
    needs `incarnation` and `round`, and gives (token, loss, the message, the time at which the
    gradient was computed in seconds since the epoch).
    next_step: int64 scalar, the global step that `step` leads to. send: sends a message of `kind`
    without a gradient. token: waits for this worker's next token, an encoded `Token`. pull: reads
    all variables into the worker's copies, and empties its queues of stamps, for a step that does
    not follow the update of the one before; none without copies. computed: the last round whose
    gradient this worker has computed; None if that waits for other replicas.
    """

    kind: Tensor
    incarnation: Tensor
    round: Tensor
    step: Sequence[Tensor]
    next_step: Tensor
    send: Operation
    token: Tensor
    pull: Sequence[Operation] = ()
    computed: Mark | None = None


def participant_ops(
    tower: Tower,
    channel: Channel,
    layout: DeviceLayout,
    replica: int,
    updates: Sequence[Operation],
    settings: Settings,
) -> ParticipantOps:
    """The ops of replica number `replica`; `updates` are run with every step."""
    worker = layout.workers[replica]
    with tf.device(worker):
        kind, incarnation = _placeholder("kind"), _placeholder("incarnation")
        round_ = channel.all_reduce.round if channel.all_reduce else _placeholder("round")
        message, other = (
            _encode(each, replica, incarnation, round_) for each in (Kind.GRADIENT, kind)
        )
        # Added, not stacked: TensorFlow folds a stack into its elements, and the round would not
        # wait for the batch any more.
        message += _in_field("examples", tower.input.examples)
        if tower.input.taken is not None:
            message += _in_field("part", tower.input.taken[0, 0])
    pushes = _pushed(tower, channel, worker, replica, message, settings)
    brought, emptied = bring_updated(channel.copies, replica)
    with tf.device(layout.parameters):
        with tf.control_dependencies([*pushes, *updates]):
            sent = channel.messages.enqueue(message)
        with tf.control_dependencies([sent]):
            token = channel.tokens[replica].dequeue()
    with tf.device(layout.client):
        token = tf.identity(token)
        next_step = token[position(Token, "step")]
    computed, last = _computed(tower, worker, round_)
    with tf.device(tower.loss.device), tf.control_dependencies(brought):
        loss = tf.identity(tower.loss) if brought else tower.loss
    with tf.device(layout.parameters):
        return ParticipantOps(
            kind=kind,
            incarnation=incarnation,
            round=round_,
            step=(token, loss, message, computed),
            next_step=next_step,
            send=channel.messages.enqueue(other),
            token=moved(channel.tokens[replica].dequeue(), layout.client),
            pull=[pull(channel.copies), *emptied] if channel.copies else (),
            # In an all-reduce, a gradient waits for those of other replicas.
            computed=None if channel.all_reduce else last.mark(),
        )


def _pushed(
    tower: Tower,
    channel: Channel,
    worker: str,
    replica: int,
    message: Tensor,
    settings: Settings,
) -> Sequence[Operation]:
    """The ops that push the gradients. The round is taken from the `message`, which waits for the
    batch: when the data has ended nothing may be pushed, not even a gradient that does not depend
    on the batch."""
    streamed = bool(channel.copies)
    sent = send_gradients(tower.contributions, worker, settings.wire_dtype, in_turn=streamed)
    rounds = _on_each(message, "round", [variable.device for _, variable in sent])
    examples = _on_each(message, "examples", channel.examples)
    counted = [
        push(accumulator, at(device, tf.cast, examples[device], tf.float64), rounds[device])
        for device, accumulator in channel.examples.items()
    ]
    accumulators = channel.accumulators
    if channel.needed is not None:
        accumulators = own_accumulators(tower.contributions, replica)
    pairs = zip(accumulators, sent, strict=True)
    return [*counted, *(push(a, gradient, rounds[v.device]) for a, (gradient, v) in pairs)]


def _in_field(field: str, value: Tensor) -> Tensor:
    """A message with this alone."""
    return value * tf.one_hot(position(Message, field), *MESSAGE_SHAPE, dtype=tf.int64)


def _on_each(message: Tensor, field: str, devices: Iterable[str]) -> dict[str, Tensor]:
    """device -> a field of the message there, int64 scalar."""
    index = position(Message, field)
    return {each: at(each, lambda: message[index]) for each in dict.fromkeys(devices)}


def _computed(tower: Tower, worker: str, round_: Tensor) -> tuple[Tensor, Cell]:
    """(the time at which the gradients were computed, see `ParticipantOps.step`; the round whose
    gradients were computed last). Both on the worker: from a ps they would take a message more."""
    last = cell("psclust/computed", tf.int64, [], host_of(worker))
    gradients = [gradient for gradient, _ in tower.contributions]
    with tf.device(worker), tf.control_dependencies(gradients):
        noted = last.set(tf.identity(round_))
        with tf.control_dependencies([noted]):
            return tf.timestamp(), last


def _placeholder(name: str) -> Tensor:
    return tf.compat.v1.placeholder(tf.int64, [], name=name)


def _encode(kind: Tensor, worker: int, incarnation: Tensor, round_: Tensor) -> Tensor:
    """A message without examples."""
    message = Message(kind, worker, incarnation, round_, examples=0)
    return tf.stack([tf.cast(value, tf.int64) for value in message])
