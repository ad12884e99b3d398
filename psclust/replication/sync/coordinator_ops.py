"""The ops of the chief of the barrier: receive messages, make an update, send tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from psclust.replication.by_device import at, moved
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.gradients import scale
from psclust.replication.settings import Settings
from psclust.replication.state_changes import state_changes
from psclust.replication.sync.accumulators import AccumulatorOps, accumulator_ops, take
from psclust.replication.sync.backup_ops import BackupOps, backup_ops
from psclust.replication.sync.barrier_channel import Channel
from psclust.replication.sync.half_made import UpdateMarks, begin_update, settled_on
from psclust.replication.sync.messages import decode_update, tokens_shape, update_shape
from psclust.replication.sync.stream_ops import StreamOps, stream_ops
from psclust.replication.tf_types import Operation, Optimizer, Tensor
from psclust.replication.towers.tower import Tower
from psclust.replication.update.apply_update import apply_update
from psclust.replication.variables.training_state import State


@dataclass(frozen=True)
class CoordinatorOps:
    """workers: how many. Placeholders: round, int64 scalar; count, int32 scalar; tokens, for
    `encode_tokens`; made, for `encode_update`.

    receive: all messages, int64 [messages, 6], when there are `count`. sums: the accumulators that
    an update or a stream takes from. all_reduce: those of the all-reduce, and release: lets
    replicas that wait in it go on; None without one. backups: None if every gradient counts.
    stream: None if the variables are written by `update`. send: sends `tokens`. update: makes the
    update `made`: writes the variables, unless the stream has done so, counts the step and sends
    the tokens.
    """

    workers: int
    round: Tensor
    count: Tensor
    tokens: Tensor
    made: Tensor
    receive: Tensor
    sums: AccumulatorOps
    all_reduce: AccumulatorOps | None
    release: Operation | None
    backups: BackupOps | None
    stream: StreamOps | None
    send: Operation
    update: Operation
    marks: UpdateMarks


def coordinator_ops(
    tower: Tower,
    channel: Channel,
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
) -> CoordinatorOps:
    workers, summed = len(layout.workers), channel.all_reduce
    with tf.device(layout.client):
        round_ = tf.compat.v1.placeholder(tf.int64, [], name="round")
        count = tf.compat.v1.placeholder(tf.int32, [], name="count")
        tokens = tf.compat.v1.placeholder(tf.int64, tokens_shape(workers), name="tokens")
        made = tf.compat.v1.placeholder(tf.int64, update_shape(workers), name="update")
    with tf.device(layout.parameters):
        ends, examples, batches, parts, sent = decode_update(made, workers)
        taken = tf.stack([parts, batches], 1)
    stream, settled = None, settled_on(layout.parameters)
    written: Sequence[Operation]
    if channel.copies:
        stream = stream_ops(tower, channel, optimizer, state, layout, settings, round_)
        tags, written = stream.tags, [stream.admitted(ends)]
    else:
        written = _applied(tower, channel, examples, optimizer, state, layout, settings)
        tags, _ = begin_update(state_changes(written, tower.roots), partial(moved, ends))
    counted = state.advance(written, batches=batches, taken=taken)
    with tf.device(layout.parameters):
        with tf.control_dependencies([counted]):
            ended = settled.set(ends)
        with tf.control_dependencies([ended]):
            update = channel.send(sent)
        return CoordinatorOps(
            workers=workers,
            round=round_,
            count=count,
            tokens=tokens,
            made=made,
            receive=moved(channel.receive(count), layout.client),
            # Other ops than those of the update, which wait until it is fed.
            sums=accumulator_ops([*channel.accumulators, *channel.examples.values()], round_),
            all_reduce=accumulator_ops(summed.all, round_) if summed else None,
            release=summed.release(round_) if summed else None,
            backups=backup_ops(
                tower.contributions, channel.accumulators, workers, round_, channel.needed
            )
            if channel.needed
            else None,
            stream=stream,
            send=channel.send(tokens),
            update=update,
            marks=UpdateMarks(tags, settled.mark()),
        )


def _applied(
    tower: Tower,
    channel: Channel,
    examples: Tensor,
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
) -> Sequence[Operation]:
    """The ops that update all variables with the mean of the gradients over `examples`."""
    variables = [variable for _, variable in tower.contributions]
    sums = [take(accumulator) for accumulator in channel.accumulators]
    with tf.device(layout.parameters):
        factor = 1.0 / tf.cast(examples, tf.float64)
    factors = {v.device: moved(factor, v.device) for v in variables}
    mean = [
        (at(v.device, scale, each, factors[v.device]), v)
        for each, v in zip(sums, variables, strict=True)
    ]
    return apply_update(optimizer, *tower.divide(mean), state, layout, settings)
