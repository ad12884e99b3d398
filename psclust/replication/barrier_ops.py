"""The TensorFlow side of the barrier: the ops that a synchronous worker and the chief run.

Gradients go into one accumulator a variable, on the variable's ps, which adds them up as they arrive and holds one sum however many
workers there are. Messages go through one queue on the first ps; every worker has a token queue of its own there, so nobody can take
two. Queues and accumulators have shared names: the graphs of all workers mean the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.barrier import Kind
from psclust.replication.gradients import scale
from psclust.replication.layout import Layout
from psclust.replication.state import State
from psclust.replication.tower import GradientsAndVariables, Tower

_MESSAGE_FIELDS = 5
_TOKEN_FIELDS = 4


@dataclass(frozen=True)
class Channel:
    """What workers and chief share. accumulators: one for each (gradient, variable) pair of the model, in its order."""

    accumulators: Sequence[Any]
    messages: Any
    tokens: Sequence[Any]


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
    """round, step, count: int64 or int32 scalar placeholders; examples: total of a round, int64; batches: int64 [workers], which
    workers contributed; rows: int64 [workers, 3], (kind, nonce, round) of the tokens to send.

    pending: int32, messages waiting. receive: int64 [count, 5]. open: refuses gradients older than `round` from now on.
    counts: int32 [accumulators], gradients held. discard: one op an accumulator that empties it.
    send: one op a worker, sends its row with `step`. applied: the new step, after the mean of the round has been applied.
    release: one op a worker, sends its row with that new step.
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
    send: Sequence[Any]
    applied: Any
    release: Sequence[Any]


def build_channel(gradients: GradientsAndVariables, layout: Layout) -> Channel:
    """Creates the shared queues and accumulators in the current graph."""
    accumulators = [_accumulator(gradient, variable) for gradient, variable in gradients]
    with tf.device(layout.parameters):
        messages = tf.queue.FIFOQueue(-1, [tf.int64], [[_MESSAGE_FIELDS]], shared_name="psclust/messages", name="messages")
        tokens = [
            tf.queue.FIFOQueue(-1, [tf.int64], [[_TOKEN_FIELDS]], shared_name=f"psclust/tokens_{replica}", name="tokens")
            for replica in range(len(layout.workers))
        ]
    return Channel(accumulators, messages, tokens)


def worker_ops(tower: Tower, channel: Channel, layout: Layout, replica: int, updates: Sequence[Any]) -> WorkerOps:
    """The side of the barrier that replica number `replica` runs; `updates` are run with every step."""
    with tf.device(layout.workers[replica]):
        kind, nonce, round_ = (tf.compat.v1.placeholder(tf.int64, [], name=name) for name in ("kind", "nonce", "round"))
        # Every push waits for the batch, also of a gradient that does not depend on it: at the end of the data nothing may be pushed.
        with tf.control_dependencies([tower.input.examples]):
            stamp = tf.identity(round_)
        worker = tf.constant(replica, tf.int64)
        done = tf.stack([tf.constant(int(Kind.GRADIENT), tf.int64), worker, nonce, round_, tower.input.examples])
        other = tf.stack([kind, worker, nonce, round_, tf.constant(0, tf.int64)])
    pushes = [_push(channel.accumulators[i], gradient, variable, stamp) for i, (gradient, variable) in enumerate(tower.gradients)]
    with tf.device(layout.parameters):
        with tf.control_dependencies([*pushes, *updates]):
            reported = channel.messages.enqueue(done)
        with tf.control_dependencies([reported]):
            next_token = channel.tokens[replica].dequeue()
        say = channel.messages.enqueue(other)
        token = channel.tokens[replica].dequeue()
    return WorkerOps(kind, nonce, round_, (next_token, tower.loss, tower.input.examples), say, token)


def chief_ops(tower: Tower, channel: Channel, optimizer: Any, state: State, layout: Layout) -> ChiefOps:
    """The side of the barrier that the chief runs."""
    workers = len(layout.workers)
    round_, step, examples = (tf.compat.v1.placeholder(tf.int64, [], name=name) for name in ("round", "step", "examples"))
    count = tf.compat.v1.placeholder(tf.int32, [], name="count")
    batches = tf.compat.v1.placeholder(tf.int64, [workers], name="batches")
    rows = tf.compat.v1.placeholder(tf.int64, [workers, _TOKEN_FIELDS - 1], name="rows")
    factor = 1.0 / tf.cast(examples, tf.float64)
    takes = [_take(accumulator, variable) for accumulator, (_, variable) in zip(channel.accumulators, tower.gradients, strict=True)]
    mean = [(_at(variable, scale, sums, factor), variable) for sums, (_, variable) in zip(takes, tower.gradients, strict=True)]
    with tf.device(layout.parameters):
        applied = state.advance([optimizer.apply_gradients(mean)], batches=batches)
    with tf.device(layout.parameters):
        return ChiefOps(
            round=round_,
            step=step,
            count=count,
            examples=examples,
            batches=batches,
            rows=rows,
            pending=channel.messages.size(),
            receive=channel.messages.dequeue_many(count),
            open=tf.group(*[_at(v, a.set_global_step, round_) for a, (_, v) in zip(channel.accumulators, tower.gradients, strict=True)]),
            counts=tf.stack([_at(v, a.num_accumulated) for a, (_, v) in zip(channel.accumulators, tower.gradients, strict=True)]),
            discard=[sums.values.op if isinstance(sums, tf.IndexedSlices) else sums.op for sums in takes],
            send=[queue.enqueue(tf.concat([rows[i], [step]], 0)) for i, queue in enumerate(channel.tokens)],
            applied=applied,
            release=[queue.enqueue(tf.concat([rows[i], [applied]], 0)) for i, queue in enumerate(channel.tokens)],
        )


def _accumulator(gradient: Any, variable: Any) -> Any:
    sparse = isinstance(gradient, tf.IndexedSlices)
    kind = tf.compat.v1.SparseConditionalAccumulator if sparse else tf.compat.v1.ConditionalAccumulator
    with tf.device(variable.device):
        # SUM, not MEAN: the sparse accumulator's mean divides every row by how many workers touched that row.
        return kind(variable.dtype.base_dtype, shape=variable.shape, shared_name=f"psclust/{variable.op.name}", reduction_type="SUM")


def _push(accumulator: Any, gradient: Any, variable: Any, stamp: Any) -> Any:
    with tf.device(variable.device):
        if isinstance(gradient, tf.IndexedSlices):
            return accumulator.apply_indexed_slices_grad(gradient, local_step=stamp)
        return accumulator.apply_grad(gradient, local_step=stamp)


def _take(accumulator: Any, variable: Any) -> Any:
    with tf.device(variable.device):
        if isinstance(accumulator, tf.compat.v1.SparseConditionalAccumulator):
            return accumulator.take_indexed_slices_grad(1)
        return accumulator.take_grad(1)


def _at(variable: Any, build: Any, *arguments: Any) -> Any:
    with tf.device(variable.device):
        return build(*arguments)
