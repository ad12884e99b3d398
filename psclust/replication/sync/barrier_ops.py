"""The TensorFlow side of the barrier: the ops that a synchronous worker and the chief run.

Gradients go into one accumulator a variable, on the variable's ps, which adds them up as they arrive and holds one sum however many
workers there are; with backup workers, they go into the worker's own first (see `backup_ops`). Messages go through one queue on the first
ps; every worker has a token queue of its own there, so nobody can take two. Queues and accumulators have shared names: the graphs of all
workers mean the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from psclust.replication.device_layout import Layout
from psclust.replication.settings import Settings
from psclust.replication.sync.accumulators import accumulator_for, at, op_of, push, take
from psclust.replication.sync.all_reduce import BetweenGraphAllReduce
from psclust.replication.sync.backup_ops import BackupOps, backup_ops, own_accumulators
from psclust.replication.sync.barrier import Kind
from psclust.replication.towers.tower import Tower
from psclust.replication.update.apply_update import apply_update
from psclust.replication.update.gradients import GradientsAndVariables, scale
from psclust.replication.variables.training_state import State
from psclust.replication.wire.buckets import send_gradients

_MESSAGE_FIELDS = 5
_TOKEN_FIELDS = 4
# Where in a message these are.
_ROUND, _EXAMPLES = 3, 4


@dataclass(frozen=True)
class Channel:
    """What workers and chief share. accumulators: one for each pair of `Tower.contributions`, in its order. needed: how many gradients
    make a step; None: one of every worker. all_reduce: None where the replicas share no moments."""

    accumulators: Sequence[Any]
    messages: Any
    tokens: Sequence[Any]
    needed: int | None = None
    all_reduce: BetweenGraphAllReduce | None = None


@dataclass(frozen=True)
class ParticipantOps:
    """kind, incarnation, round: int64 scalar placeholders that describe the message.
    step: fetches (token, loss, examples) after one gradient was computed, pushed and reported; needs `incarnation` and `round`.
    say: sends a message of `kind` without a gradient. token: waits for this worker's next token, int64 [kind, incarnation, round, step]."""

    kind: Any
    incarnation: Any
    round: Any
    step: Sequence[Any]
    say: Any
    token: Any


@dataclass(frozen=True)
class CoordinatorOps:
    """round, step, count: int64 or int32 scalar placeholders; rows: int64 [workers, 3], (kind, incarnation, round) of the tokens to send,
    kind -1 where none is. orders: int64 [2 + 4 * workers], all that an update needs in one message, see `orders_of`.

    pending: int32, messages waiting. receive: int64 [at least count, 5], all that are waiting.
    open: refuses gradients older than `round` from now on. counts: int32 [accumulators], gradients held.
    discard: one op an accumulator that empties it.
    open_all_reduce, all_reduce_counts, discard_all_reduce: the same of the all-reduce. release_all_reduce: lets all who wait in it
        go on; None without one.
    backups: of the workers' own accumulators; None where every gradient counts.
    send: sends `rows` with `step`. update: applies the mean of the round, sends tokens with the new step and receives the next messages:
        int64 [5 * messages + 1], the messages as `receive` has them, then that step.
    """

    round: Any
    step: Any
    count: Any
    rows: Any
    orders: Any
    pending: Any
    receive: Any
    open: Any
    counts: Any
    discard: Sequence[Any]
    send: Any
    update: Any
    open_all_reduce: Any
    all_reduce_counts: Sequence[Any]
    discard_all_reduce: Sequence[Any]
    release_all_reduce: Any
    backups: BackupOps | None


def build_channel(
    contributions: GradientsAndVariables, layout: Layout, all_reduce: BetweenGraphAllReduce | None = None, needed: int | None = None
) -> Channel:
    """Creates the shared queues and accumulators in the current graph."""
    accumulators = [accumulator_for(gradient, variable) for gradient, variable in contributions]
    with tf.device(layout.parameters):
        messages = tf.queue.FIFOQueue(-1, [tf.int64], [[_MESSAGE_FIELDS]], shared_name="psclust/messages", name="messages")
        tokens = [
            tf.queue.FIFOQueue(-1, [tf.int64], [[_TOKEN_FIELDS]], shared_name=f"psclust/tokens_{replica}", name="tokens")
            for replica in range(len(layout.workers))
        ]
    return Channel(accumulators, messages, tokens, needed, all_reduce)


def participant_ops(tower: Tower, channel: Channel, layout: Layout, replica: int, updates: Sequence[Any]) -> ParticipantOps:
    """The side of the barrier that replica number `replica` runs; `updates` are run with every step."""
    with tf.device(layout.workers[replica]):
        kind, incarnation = (tf.compat.v1.placeholder(tf.int64, [], name=name) for name in ("kind", "incarnation"))
        round_ = channel.all_reduce.round if channel.all_reduce else tf.compat.v1.placeholder(tf.int64, [], name="round")
        worker = tf.constant(replica, tf.int64)
        done = tf.stack([tf.constant(int(Kind.GRADIENT), tf.int64), worker, incarnation, round_, tf.constant(0, tf.int64)])
        # A sum, because of a stack TensorFlow knows every element by itself, and would take the round out of it before the batch is there.
        done += tower.input.examples * tf.one_hot(_EXAMPLES, _MESSAGE_FIELDS, dtype=tf.int64)
        other = tf.stack([kind, worker, incarnation, round_, tf.constant(0, tf.int64)])
    accumulators = channel.accumulators if channel.needed is None else own_accumulators(tower.contributions, replica)
    sent = send_gradients(tower.contributions, layout.workers[replica])
    # The stamp is taken from the report, which waits for the batch: at the end of the data nothing may be pushed, not even a gradient that
    # does not depend on it.
    stamps = {variable.device: at(variable, lambda: done[_ROUND]) for _, variable in sent}
    pushes = [push(a, gradient, v, stamps[v.device]) for a, (gradient, v) in zip(accumulators, sent, strict=True)]
    with tf.device(layout.parameters):
        with tf.control_dependencies([*pushes, *updates]):
            reported = channel.messages.enqueue(done)
        with tf.control_dependencies([reported]):
            next_token = channel.tokens[replica].dequeue()
        say = channel.messages.enqueue(other)
        token = channel.tokens[replica].dequeue()
    return ParticipantOps(kind, incarnation, round_, (next_token, tower.loss, tower.input.examples), say, token)


def coordinator_ops(tower: Tower, channel: Channel, optimizer: Any, state: State, layout: Layout, settings: Settings) -> CoordinatorOps:
    """The side of the barrier that the chief runs."""
    workers, variables = len(layout.workers), [variable for _, variable in tower.contributions]
    accumulators, all_reduce = list(zip(channel.accumulators, variables, strict=True)), channel.all_reduce
    round_, step = (tf.compat.v1.placeholder(tf.int64, [], name=name) for name in ("round", "step"))
    count = tf.compat.v1.placeholder(tf.int32, [], name="count")
    rows = tf.compat.v1.placeholder(tf.int64, [workers, _TOKEN_FIELDS - 1], name="rows")
    orders = tf.compat.v1.placeholder(tf.int64, [2 + workers * _TOKEN_FIELDS], name="orders")
    takes = [take(accumulator, variable) for accumulator, variable in accumulators]
    factors = {variable.device: at(variable, lambda: 1.0 / tf.cast(orders[0], tf.float64)) for variable in variables}
    mean = [(at(v, scale, sums, factors[v.device]), v) for sums, v in zip(takes, variables, strict=True)]
    with tf.device(layout.parameters):
        batches, tokens = orders[2 : 2 + workers], tf.reshape(orders[2 + workers :], rows.shape)
        applied = state.advance(apply_update(optimizer, *tower.divide(mean), state, layout, settings), batches=batches)
        receive = _receive(channel, count)
        with tf.control_dependencies([_send(channel, tokens, applied)]):
            update = tf.concat([tf.reshape(_receive(channel, tf.cast(orders[1], tf.int32)), [-1]), [applied]], 0)
        return CoordinatorOps(
            round=round_,
            step=step,
            count=count,
            rows=rows,
            orders=orders,
            pending=channel.messages.size(),
            receive=receive,
            open=tf.group(*[at(v, a.set_global_step, round_) for a, v in accumulators]),
            counts=tf.stack([at(v, a.num_accumulated) for a, v in accumulators]),
            discard=[op_of(sums) for sums in takes],
            send=_send(channel, rows, step),
            update=update,
            open_all_reduce=all_reduce.open(round_) if all_reduce else None,
            all_reduce_counts=all_reduce.counts() if all_reduce else [],
            discard_all_reduce=all_reduce.discard() if all_reduce else [],
            release_all_reduce=all_reduce.release(round_) if all_reduce else None,
            backups=backup_ops(tower.contributions, channel.accumulators, layout, round_, channel.needed) if channel.needed else None,
        )


def orders_of(examples: int, count: int, batches: Any, rows: Any) -> Any:
    """The value of `CoordinatorOps.orders`: the examples of the round, how many messages to wait for then, how many batches of each worker
    are used up with the step, int64 [workers], and its `rows`."""
    return np.concatenate([[examples, count], batches, np.ravel(rows)])


def _receive(channel: Channel, count: Any) -> Any:
    return channel.messages.dequeue_many(tf.maximum(count, channel.messages.size()))


def _send(channel: Channel, rows: Any, step: Any) -> Any:
    """One op for any choice of workers: TensorFlow keeps a graph of its own for every set of ops it is asked to run."""
    tokens = tf.concat([rows, tf.fill([len(channel.tokens), 1], step)], 1)
    to_send = tf.cast(rows[:, 0] >= 0, tf.int32)
    return tf.group(*[queue.enqueue_many(tokens[i : i + to_send[i]]) for i, queue in enumerate(channel.tokens)])
