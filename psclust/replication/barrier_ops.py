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

import tensorflow as tf

from psclust.replication.accumulators import accumulator_for, at, op_of, push, take
from psclust.replication.backup_ops import BackupOps, backup_ops, own_accumulators
from psclust.replication.barrier import Kind
from psclust.replication.exchange import BarrierExchange
from psclust.replication.gradients import GradientsAndVariables, scale
from psclust.replication.layout import Layout
from psclust.replication.settings import Settings
from psclust.replication.state import State
from psclust.replication.tower import Tower
from psclust.replication.update import apply_update

_MESSAGE_FIELDS = 5
_TOKEN_FIELDS = 4


@dataclass(frozen=True)
class Channel:
    """What workers and chief share. accumulators: one for each pair of `Tower.contributions`, in its order. needed: how many gradients
    make a step; None: one of every worker. exchange: None where the replicas share no moments."""

    accumulators: Sequence[Any]
    messages: Any
    tokens: Sequence[Any]
    needed: int | None = None
    exchange: BarrierExchange | None = None


@dataclass(frozen=True)
class WorkerOps:
    """kind, nonce, round: int64 scalar placeholders that describe the message.
    step: fetches (token, loss, examples) after one gradient was computed, pushed and reported; needs `nonce` and `round`.
    say: sends a message of `kind` without a gradient. token: waits for this worker's next token, int64 [kind, nonce, round, step]."""

    kind: Any
    nonce: Any
    round: Any
    step: Sequence[Any]
    say: Any
    token: Any


@dataclass(frozen=True)
class ChiefOps:
    """round, step, count: int64 or int32 scalar placeholders; examples: total of a round, int64; batches: int64 [workers], how many
    of each are used up with the step; rows: int64 [workers, 3], (kind, nonce, round) of the tokens to send, kind -1 where none is.

    pending: int32, messages waiting. receive: int64 [at least count, 5], all that are waiting.
    open: refuses gradients older than `round` from now on. counts: int32 [accumulators], gradients held.
    discard: one op an accumulator that empties it.
    open_exchange, exchanged, discard_exchanged: the same of an exchange. release_exchange: lets all who wait in it go on; None where
        there is none.
    backups: of the workers' own accumulators; None where every gradient counts.
    send: sends `rows` with `step`. applied: the new step, after the mean of the round has been applied. release: sends `rows` with that.
    """

    round: Any
    step: Any
    count: Any
    examples: Any
    batches: Any
    rows: Any
    pending: Any
    receive: Any
    open: Any
    counts: Any
    discard: Sequence[Any]
    send: Any
    applied: Any
    release: Any
    open_exchange: Any
    exchanged: Sequence[Any]
    discard_exchanged: Sequence[Any]
    release_exchange: Any
    backups: BackupOps | None


def build_channel(
    contributions: GradientsAndVariables, layout: Layout, exchange: BarrierExchange | None = None, needed: int | None = None
) -> Channel:
    """Creates the shared queues and accumulators in the current graph."""
    accumulators = [accumulator_for(gradient, variable) for gradient, variable in contributions]
    with tf.device(layout.parameters):
        messages = tf.queue.FIFOQueue(-1, [tf.int64], [[_MESSAGE_FIELDS]], shared_name="psclust/messages", name="messages")
        tokens = [
            tf.queue.FIFOQueue(-1, [tf.int64], [[_TOKEN_FIELDS]], shared_name=f"psclust/tokens_{replica}", name="tokens")
            for replica in range(len(layout.workers))
        ]
    return Channel(accumulators, messages, tokens, needed, exchange)


def worker_ops(tower: Tower, channel: Channel, layout: Layout, replica: int, updates: Sequence[Any]) -> WorkerOps:
    """The side of the barrier that replica number `replica` runs; `updates` are run with every step."""
    with tf.device(layout.workers[replica]):
        kind, nonce = (tf.compat.v1.placeholder(tf.int64, [], name=name) for name in ("kind", "nonce"))
        round_ = channel.exchange.round if channel.exchange else tf.compat.v1.placeholder(tf.int64, [], name="round")
        # Every push waits for the batch, also of a gradient that does not depend on it: at the end of the data nothing may be pushed.
        with tf.control_dependencies([tower.input.examples]):
            stamp = tf.identity(round_)
        worker = tf.constant(replica, tf.int64)
        done = tf.stack([tf.constant(int(Kind.GRADIENT), tf.int64), worker, nonce, round_, tower.input.examples])
        other = tf.stack([kind, worker, nonce, round_, tf.constant(0, tf.int64)])
    accumulators = channel.accumulators if channel.needed is None else own_accumulators(tower.contributions, replica)
    pushes = [push(a, gradient, variable, stamp) for a, (gradient, variable) in zip(accumulators, tower.contributions, strict=True)]
    with tf.device(layout.parameters):
        with tf.control_dependencies([*pushes, *updates]):
            reported = channel.messages.enqueue(done)
        with tf.control_dependencies([reported]):
            next_token = channel.tokens[replica].dequeue()
        say = channel.messages.enqueue(other)
        token = channel.tokens[replica].dequeue()
    return WorkerOps(kind, nonce, round_, (next_token, tower.loss, tower.input.examples), say, token)


def chief_ops(tower: Tower, channel: Channel, optimizer: Any, state: State, layout: Layout, settings: Settings) -> ChiefOps:
    """The side of the barrier that the chief runs."""
    workers, variables = len(layout.workers), [variable for _, variable in tower.contributions]
    accumulators, exchange = list(zip(channel.accumulators, variables, strict=True)), channel.exchange
    round_, step, examples = (tf.compat.v1.placeholder(tf.int64, [], name=name) for name in ("round", "step", "examples"))
    count = tf.compat.v1.placeholder(tf.int32, [], name="count")
    batches = tf.compat.v1.placeholder(tf.int64, [workers], name="batches")
    rows = tf.compat.v1.placeholder(tf.int64, [workers, _TOKEN_FIELDS - 1], name="rows")
    factor = 1.0 / tf.cast(examples, tf.float64)
    takes = [take(accumulator, variable) for accumulator, variable in accumulators]
    mean = [(at(variable, scale, sums, factor), variable) for sums, variable in zip(takes, variables, strict=True)]
    with tf.device(layout.parameters):
        applied = state.advance(apply_update(optimizer, *tower.divide(mean), state, layout, settings), batches=batches)
    with tf.device(layout.parameters):
        return ChiefOps(
            round=round_,
            step=step,
            count=count,
            examples=examples,
            batches=batches,
            rows=rows,
            pending=channel.messages.size(),
            receive=channel.messages.dequeue_many(tf.maximum(count, channel.messages.size())),
            open=tf.group(*[at(v, a.set_global_step, round_) for a, v in accumulators]),
            counts=tf.stack([at(v, a.num_accumulated) for a, v in accumulators]),
            discard=[op_of(sums) for sums in takes],
            send=_send(channel, rows, step),
            applied=applied,
            release=_send(channel, rows, applied),
            open_exchange=exchange.open(round_) if exchange else None,
            exchanged=exchange.counts() if exchange else [],
            discard_exchanged=exchange.discard() if exchange else [],
            release_exchange=exchange.release(round_) if exchange else None,
            backups=backup_ops(tower.contributions, channel.accumulators, layout, round_, channel.needed) if channel.needed else None,
        )


def _send(channel: Channel, rows: Any, step: Any) -> Any:
    """One op for any choice of workers: TensorFlow keeps a graph of its own for every set of ops it is asked to run."""
    tokens = tf.concat([rows, tf.fill([len(channel.tokens), 1], step)], 1)
    to_send = tf.cast(rows[:, 0] >= 0, tf.int32)
    return tf.group(*[queue.enqueue_many(tokens[i : i + to_send[i]]) for i, queue in enumerate(channel.tokens)])
