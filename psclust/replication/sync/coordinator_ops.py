"""The ops of the chief of the barrier: receive messages, make an update, send tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.by_device import moved
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.gradients import scale
from psclust.replication.settings import Settings
from psclust.replication.sync.accumulators import AccumulatorOps, accumulator_ops, at, take
from psclust.replication.sync.all_reduce import BetweenGraphAllReduce
from psclust.replication.sync.backup_ops import BackupOps, backup_ops
from psclust.replication.sync.barrier_channel import Channel
from psclust.replication.sync.half_made import UpdateMarks
from psclust.replication.sync.messages import (
    DecodedUpdate,
    decode_update,
    tokens_shape,
    update_shape,
)
from psclust.replication.sync.stream_ops import StreamOps, stream_ops
from psclust.replication.tf_types import Gradient, Operation, Optimizer, Tensor, Variable
from psclust.replication.towers.tower import Tower
from psclust.replication.update.apply_update import apply_update
from psclust.replication.variables.cell import Mark
from psclust.replication.variables.training_state import State


@dataclass(frozen=True)
class AllReduceOps:
    """accumulators: those of the all-reduce. release: lets replicas that wait in it go on."""

    accumulators: AccumulatorOps
    release: Operation


@dataclass(frozen=True)
class CoordinatorOps:
    """workers: how many. Placeholders: round, int64 scalar; count, int32 scalar; tokens, for
    `encode_tokens`; order, for `encode_update`.

    pending: how many messages wait, int32 scalar. receive: all messages, int64 [messages, 5], when
    there are `count`. sums: the accumulators that an update takes from. all_reduce: None without
    one. backups: None if every gradient counts. stream: None if the variables are written by
    `update`. send: sends `tokens`. update: writes the variables, unless the stream has done so,
    counts the step and sends the tokens of `order`. marks: they differ if an update is half made;
    None with a stream.
    """

    workers: int
    round: Tensor
    count: Tensor
    tokens: Tensor
    order: Tensor
    pending: Tensor
    receive: Tensor
    sums: AccumulatorOps
    all_reduce: AllReduceOps | None
    backups: BackupOps | None
    stream: StreamOps | None
    send: Operation
    update: Sequence[Operation]
    marks: Sequence[Mark] | None


def coordinator_ops(
    tower: Tower,
    channel: Channel,
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
) -> CoordinatorOps:
    workers, variables = len(layout.workers), [variable for _, variable in tower.contributions]
    with tf.device(layout.client):
        round_ = tf.compat.v1.placeholder(tf.int64, [], name="round")
        count = tf.compat.v1.placeholder(tf.int32, [], name="count")
        tokens = tf.compat.v1.placeholder(tf.int64, tokens_shape(workers), name="tokens")
        order = tf.compat.v1.placeholder(tf.int64, update_shape(workers), name="order")
    with tf.device(layout.parameters):
        decoded = decode_update(order, workers)
    stream = marks = None
    if channel.stream is not None:
        stream = stream_ops(tower, channel.stream, optimizer, state, layout, settings)
        admitted = stream.admitted(decoded.round)
        counted = state.advance([admitted], batches=decoded.batches)
        with tf.control_dependencies([counted]):
            ended = [stream.settled_at(decoded.round)]
    else:
        taken = _taken(channel, variables)
        marks = UpdateMarks(decoded.round)
        applied = _applied(taken, decoded, tower, optimizer, state, layout, settings)
        marks.begin(applied, tower.roots)
        counted = state.advance(applied, batches=decoded.batches)
        ended = marks.end(layout.parameters, counted)
    with tf.device(layout.parameters):
        with tf.control_dependencies(ended):
            sent = channel.send(decoded.tokens)
        return CoordinatorOps(
            workers=workers,
            round=round_,
            count=count,
            tokens=tokens,
            order=order,
            pending=channel.messages.size(),
            receive=moved(channel.receive(count), layout.client),
            sums=stream.sums if stream else _sums(channel, variables, round_),
            all_reduce=_all_reduce_ops(channel.all_reduce, round_) if channel.all_reduce else None,
            backups=backup_ops(
                tower.contributions, channel.accumulators, layout, round_, channel.needed
            )
            if channel.needed
            else None,
            stream=stream,
            send=channel.send(tokens),
            update=[sent],
            marks=marks.all if marks else None,
        )


def _taken(channel: Channel, variables: Sequence[Variable]) -> list[Gradient]:
    return [take(a, variable) for a, variable in zip(channel.accumulators, variables, strict=True)]


def _sums(channel: Channel, variables: Sequence[Variable], round_: Tensor) -> AccumulatorOps:
    # Not those of the update: they wait for its order, and these need none.
    taken = _taken(channel, variables)
    return accumulator_ops(channel.accumulators, variables, taken, round_)


def _applied(
    taken: Sequence[Gradient],
    order: DecodedUpdate,
    tower: Tower,
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
) -> Sequence[Operation]:
    """The ops that update all variables with the mean of the sums `taken`."""
    variables = [variable for _, variable in tower.contributions]
    with tf.device(layout.parameters):
        factor = 1.0 / tf.cast(order.examples, tf.float64)
    factors = {v.device: moved(factor, v.device) for v in variables}
    mean = [
        (at(v, scale, sums, factors[v.device]), v) for sums, v in zip(taken, variables, strict=True)
    ]
    return apply_update(optimizer, *tower.divide(mean), state, layout, settings)


def _all_reduce_ops(all_reduce: BetweenGraphAllReduce, round_: Tensor) -> AllReduceOps:
    accumulators = AccumulatorOps(
        round_, all_reduce.open(round_), all_reduce.counts(), all_reduce.discard()
    )
    return AllReduceOps(accumulators, all_reduce.release(round_))
