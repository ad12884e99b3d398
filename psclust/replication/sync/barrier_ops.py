"""The TensorFlow ops of the barrier: those of a synchronous worker (participant) and those of the
chief (coordinator).

Gradients go into one accumulator a variable, on the variable's ps, which adds them up as they
arrive and holds one sum whatever the number of workers; with backup workers, they go into the
worker's own accumulators first (see `backup_ops`), in a streamed round to `arrivals`. Messages go
through one queue on the first ps; each worker has a token queue of its own there, so no worker
takes two tokens. Queues and accumulators have shared names, so the graphs of all workers use the
same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.by_device import joined, moved
from psclust.replication.device_layout import DeviceLayout, host_of
from psclust.replication.settings import Settings
from psclust.replication.sync.accumulators import (
    AccumulatorOps,
    accumulator_for,
    accumulator_ops,
    at,
    push,
    take,
)
from psclust.replication.sync.all_reduce import BetweenGraphAllReduce
from psclust.replication.sync.backup_ops import BackupOps, backup_ops, own_accumulators
from psclust.replication.sync.barrier_messages import (
    MESSAGE_SHAPE,
    TOKEN_SHAPE,
    Kind,
    Message,
    Token,
    has_token,
    position,
    tokens_shape,
)
from psclust.replication.sync.foreseen_token import ForeseenToken
from psclust.replication.sync.foreseen_update import Decision, Gates, decide, decode_update
from psclust.replication.sync.readiness import of_each
from psclust.replication.sync.step_report import StepReport
from psclust.replication.sync.stream_ops import (
    Brought,
    StreamChannel,
    StreamOps,
    bring_updated,
    push_streamed,
    stream_channel,
    stream_ops,
)
from psclust.replication.tf_types import (
    Accumulator,
    Gradient,
    Operation,
    Optimizer,
    Tensor,
    Variable,
)
from psclust.replication.towers.tower import Tower
from psclust.replication.update.apply_update import apply_update
from psclust.replication.update.gradients import GradientsAndVariables, scale
from psclust.replication.variables.cell import Cell, Mark, cell
from psclust.replication.variables.training_state import State
from psclust.replication.wire.buckets import send_gradients
from psclust.replication.wire.local_copies import LocalCopy, pull
from psclust.replication.wire.own_wire import allowed_wire


@dataclass(frozen=True)
class Channel:
    """The queues and accumulators that workers and chief share. accumulators: one for each pair of
    `Tower.contributions`, in its order; none with a stream. needed: how many gradients make a step;
    None: one of every worker. all_reduce: None if the replicas share no moments. stream: None if
    the variables are updated when all gradients of all have arrived."""

    accumulators: Sequence[Accumulator]
    messages: Any
    tokens: Sequence[Any]
    needed: int | None = None
    all_reduce: BetweenGraphAllReduce | None = None
    stream: StreamChannel | None = None


@dataclass(frozen=True)
class ParticipantOps:
    """kind, incarnation, round: int64 scalar placeholders for the fields of a message.

    step: fetches (token, loss, examples, when its gradients were computed: seconds since the epoch,
    and for each of `stamps` their values) after one gradient was computed, pushed and reported;
    feeds `incarnation` and `round`. reported: its op that reports, with all that goes before.
    stamps: for each ps, the stamps that a step takes there, see `readiness`; next_stamps: those
    after them, each of which can be taken alone. report: see `StepReport`. next_step: int64 scalar,
    the global step that `step` leads to. send: sends a message of `kind` without a gradient. token:
    waits for this worker's next token, an encoded `Token`. pull: brings the worker's copies of the
    variables up to date, before a step that does not continue the one before; None if it has none.
    computed: the round whose gradient was computed last, on the worker alone; None if computing it
    waits for other replicas. foreseen: None if every step needs its token before it is begun.
    """

    kind: Tensor
    incarnation: Tensor
    round: Tensor
    step: Sequence[Tensor]
    reported: Operation
    stamps: Sequence[Sequence[Tensor]]
    next_stamps: Sequence[Sequence[Tensor]]
    report: StepReport
    next_step: Tensor
    send: Operation
    token: Tensor
    pull: Operation | None = None
    computed: Mark | None = None
    foreseen: ForeseenToken | None = None


@dataclass(frozen=True)
class AllReduceOps:
    """The accumulators of the all-reduce. release: lets the replicas go on that wait in it."""

    accumulators: AccumulatorOps
    release: Operation


@dataclass(frozen=True)
class CoordinatorOps:
    """workers: how many. round: int64, count: int32 scalar placeholders. tokens, order: to feed
    with `encode_tokens` and `encode_update`.

    pending: int32, messages waiting. receive: int64 [messages, 5], all waiting messages, `count` at
    least.
    sums: the accumulators that an update takes from. all_reduce: None without one. backups: None if
    every gradient counts.
    send: sends `tokens`. update: applies the mean of the round, or waits until the `stream` has,
    counts the step, sends the tokens of `order` and receives the next messages; fetches what
    `receive` does. foreseen: waits for the messages of `order`, then does the same if they are
    those foreseen, but receives no others; fetches `Decision.answer`. with_step: the same, and the
    stream, in a step of the chief's own replica, which then takes no token: fetches what the step
    does but for the token, and the answer; feeds `orders`, and the step's. unforeseen: int64
    [messages, 5], why such a step with a stream makes no update, or does not end: its messages if
    they are not those foreseen, and STRAY; None without a stream. marks: not all equal if an update
    is half made; None with a stream.
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
    update: Sequence[Tensor | Operation]
    foreseen: Sequence[Tensor | Operation]
    with_step: Sequence[Tensor | Operation]
    orders: Tensor | None
    unforeseen: Tensor | None
    marks: Sequence[Mark] | None


def build_channel(
    contributions: GradientsAndVariables,
    layout: DeviceLayout,
    all_reduce: BetweenGraphAllReduce | None = None,
    needed: int | None = None,
    copies: Sequence[LocalCopy] = (),
) -> Channel:
    """Creates the shared queues and accumulators in the current graph. copies: of this worker, if
    each variable is updated, and comes back to them, while gradients of others leave."""
    accumulators = (
        []
        if copies
        else [accumulator_for(gradient, variable) for gradient, variable in contributions]
    )
    with tf.device(layout.parameters):
        messages = tf.queue.FIFOQueue(
            -1, [tf.int64], [MESSAGE_SHAPE], shared_name="psclust/messages", name="messages"
        )
        tokens = [
            tf.queue.FIFOQueue(
                -1,
                [tf.int64],
                [TOKEN_SHAPE],
                shared_name=f"psclust/tokens_{replica}",
                name="tokens",
            )
            for replica in range(len(layout.workers))
        ]
    stream = (
        stream_channel([variable for _, variable in contributions], copies, len(layout.workers))
        if copies
        else None
    )
    return Channel(accumulators, messages, tokens, needed, all_reduce, stream)


def participant_ops(
    tower: Tower,
    channel: Channel,
    layout: DeviceLayout,
    replica: int,
    updates: Sequence[Operation],
    settings: Settings,
    *,
    chief: bool = False,
) -> ParticipantOps:
    """The ops of replica number `replica`; `updates` are run with every step. chief: whether it is
    the chief's own."""
    with tf.device(layout.workers[replica]):
        kind, incarnation = (
            tf.compat.v1.placeholder(tf.int64, [], name=name) for name in ("kind", "incarnation")
        )
        round_ = (
            channel.all_reduce.round
            if channel.all_reduce
            else tf.compat.v1.placeholder(tf.int64, [], name="round")
        )
        done, other = (
            _encode(each, replica, incarnation, round_) for each in (Kind.GRADIENT, kind)
        )
        # Added, not stacked: TensorFlow folds a stack into its elements, and the round would not
        # wait for the batch any more.
        done += tower.input.examples * tf.one_hot(
            position(Message, "examples"), *MESSAGE_SHAPE, dtype=tf.int64
        )
        report = StepReport.of(done, layout, streamed=channel.stream is not None, chief=chief)
    sent = send_gradients(
        tower.contributions,
        layout.workers[replica],
        settings.wire_dtype,
        in_turn=channel.stream is not None,
    )
    devices = [variable.device for _, variable in sent]
    rounds = report.on_each("round", devices)
    brought = Brought()
    if channel.stream is None:
        accumulators = (
            channel.accumulators
            if channel.needed is None
            else own_accumulators(tower.contributions, replica)
        )
        pushes = [
            push(a, gradient, v, rounds[v.device])
            for a, (gradient, v) in zip(accumulators, sent, strict=True)
        ]
    else:
        gradients = [gradient for gradient, _ in sent]
        pushes = push_streamed(
            channel.stream, replica, gradients, report.on_each("examples", devices), rounds
        )
        brought = bring_updated(channel.stream, replica)
    with tf.device(layout.parameters):
        with tf.control_dependencies([*pushes, *updates]):
            reported = channel.messages.enqueue(report.message())
        with tf.control_dependencies([reported]):
            token = channel.tokens[replica].dequeue()
    token, *fetched = _fetched(token, brought.stamps, layout)
    foreseen = (
        ForeseenToken.of(round_, layout.client)
        if channel.stream and allowed_wire(tf.compat.v1.get_default_graph())
        else None
    )
    token = foreseen.kept(token, incarnation, fetched) if foreseen else token
    with tf.device(layout.client):
        next_step = token[position(Token, "step")]
    computed, last = _computed(tower, layout.workers[replica], round_)
    with tf.device(tower.loss.device), tf.control_dependencies(brought.operations):
        loss = tf.identity(tower.loss) if brought.operations else tower.loss
    with tf.device(layout.parameters):
        return ParticipantOps(
            kind=kind,
            incarnation=incarnation,
            round=round_,
            step=(token, loss, tower.input.examples, computed, *fetched),
            stamps=brought.stamps,
            next_stamps=brought.next_stamps,
            report=report,
            reported=reported,
            next_step=next_step,
            send=channel.messages.enqueue(other),
            token=moved(channel.tokens[replica].dequeue(), layout.client),
            pull=pull(channel.stream.copies) if channel.stream else None,
            # In an all-reduce, a gradient waits for those of other replicas.
            computed=None if channel.all_reduce else last.mark(),
            foreseen=foreseen,
        )


def coordinator_ops(
    tower: Tower,
    channel: Channel,
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
    own: ParticipantOps,
) -> CoordinatorOps:
    """The ops of the chief. own: of its own replica."""
    workers, variables = len(layout.workers), [variable for _, variable in tower.contributions]
    with tf.device(layout.client):
        round_, count = (
            tf.compat.v1.placeholder(tf.int64, [], name="round"),
            tf.compat.v1.placeholder(tf.int32, [], name="count"),
        )
        tokens = tf.compat.v1.placeholder(tf.int64, tokens_shape(workers), name="tokens")
    with tf.device(layout.parameters):
        # Fed itself where no step is to go before. When the data has ended, a step that fails takes
        # no messages with it.
        with tf.control_dependencies([own.reported]):
            order = own.report.update_order()
        gates, decoded = None, decode_update(order, workers)
        stream = (
            stream_ops(tower, channel.stream, optimizer, state, layout, settings, own.report)
            if channel.stream
            else None
        )
        decision = decide(
            decoded, workers, channel.messages.dequeue_many, stream.admits if stream else None
        )
        if stream is None:
            gates = Gates(decision, variables)
            taken = _taken(channel, variables)
            applied = _applied(taken, gates, tower, optimizer, state, layout, settings)
            gates.hold(applied)
        else:
            with tf.control_dependencies([tf.identity(decision.update)]):
                applied = [stream.ended()]
        counted = _counted(state, applied, decision.batches, stream)
        ended = gates.end(layout.parameters, counted) if gates else []
        answer = moved(decision.answer, layout.client)
        streamed, unforeseen = _streamed(decision, stream) if stream else ([], None)
        with tf.control_dependencies([counted]):
            sent = _send(channel, tf.reshape(decoded.tokens, tokens.shape))
        answer_of_step, *stamps = _fetched(
            decision.answer_after(sent) if own.foreseen else decision.answer, own.stamps, layout
        )
        if own.foreseen is not None:
            answer_of_step = own.foreseen.kept_answer(answer_of_step, stamps)
        with tf.control_dependencies([sent]):
            update = _receive(channel, tf.cast(decoded.wanted, tf.int32))
        return CoordinatorOps(
            workers=workers,
            round=round_,
            count=count,
            tokens=tokens,
            order=order,
            pending=channel.messages.size(),
            receive=moved(_receive(channel, count), layout.client),
            sums=stream.sums
            if stream
            else accumulator_ops(
                channel.accumulators, variables, _taken(channel, variables), round_
            ),
            all_reduce=_all_reduce_ops(channel.all_reduce, round_) if channel.all_reduce else None,
            backups=backup_ops(
                tower.contributions, channel.accumulators, layout, round_, channel.needed
            )
            if channel.needed
            else None,
            stream=stream,
            send=_send(channel, tokens),
            update=(moved(update, layout.client), *ended),
            foreseen=(answer, sent, *ended),
            with_step=(*own.step[1:4], *stamps, answer_of_step, *streamed, sent, *ended),
            unforeseen=moved(unforeseen, layout.client) if unforeseen is not None else None,
            orders=own.report.orders,
            marks=gates.marks if gates else None,
        )


def _computed(tower: Tower, worker: str, round_: Tensor) -> tuple[Tensor, Cell]:
    """(when the gradients were computed, see `ParticipantOps.step`; the last round of which they
    were). On the worker: the time at which a ps has them would take a message of its own."""
    last = cell("psclust/computed", tf.int64, [], host_of(worker))
    with (
        tf.device(worker),
        tf.control_dependencies([gradient for gradient, _ in tower.contributions]),
    ):
        kept = last.set(tf.identity(round_))
        with tf.control_dependencies([kept]):
            return tf.timestamp(), last


def _fetched(
    last: Tensor, stamps: Iterable[Sequence[Tensor]], layout: DeviceLayout
) -> list[Tensor]:
    """(`last`, int64 [n], which is on the first ps; the stamps of each ps), on the client, with one
    message from each ps."""
    together = joined({each[0].device: each for each in stamps})
    here = [each for each in together if each.device == layout.parameters]
    with tf.device(layout.parameters):
        message = tf.concat([*here, last], 0)
    with tf.device(layout.client):
        *found, last = tf.split(message, [*(each.shape[0] for each in here), -1])
    return [
        last,
        *(
            found[0] if each.device == layout.parameters else moved(each, layout.client)
            for each in together
        ),
    ]


def _taken(channel: Channel, variables: Sequence[Variable]) -> Sequence[Gradient]:
    return [
        take(accumulator, variable)
        for accumulator, variable in zip(channel.accumulators, variables, strict=True)
    ]


def _applied(
    taken: Sequence[Gradient],
    gates: Gates,
    tower: Tower,
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
) -> Sequence[Operation]:
    """The ops that update all variables with the mean of the sums `taken`."""
    variables = [variable for _, variable in tower.contributions]
    mean = [
        (at(v, scale, sums, gates.factor(v.device)), v)
        for sums, v in zip(taken, variables, strict=True)
    ]
    return apply_update(optimizer, *tower.divide(mean), state, layout, settings)


def _streamed(decision: Decision, stream: StreamOps) -> tuple[list[Operation], Tensor]:
    """(the ops of a step with a stream that the stream adds; what the chief takes of what keeps one
    from ending). Such a step ends with its stream, and for that the chief may first have to do
    something about its messages."""
    found = tf.queue.FIFOQueue(
        -1, [tf.int64], [MESSAGE_SHAPE], shared_name="psclust/unforeseen", name="unforeseen"
    )
    stray = _encode(tf.constant(Kind.STRAY), 0, tf.constant(0), stream.other_round)
    return [
        stream.reported,
        found.enqueue_many(decision.unforeseen),
        found.enqueue(stray),
    ], found.dequeue_many(found.size())


def _counted(
    state: State, applied: Sequence[Operation], batches: Tensor, stream: StreamOps | None
) -> Operation:
    """The op that counts the step after the ops in `applied`."""
    step = state.advance(applied, batches=batches)
    with tf.control_dependencies([step]):
        return stream.counted() if stream else tf.no_op()


def _all_reduce_ops(all_reduce: BetweenGraphAllReduce, round_: Tensor) -> AllReduceOps:
    accumulators = AccumulatorOps(
        round_, all_reduce.open(round_), all_reduce.counts(), all_reduce.discard()
    )
    return AllReduceOps(accumulators, all_reduce.release(round_))


def _encode(kind: Tensor, worker: int, incarnation: Tensor, round_: Tensor) -> Tensor:
    """A message without examples."""
    message = Message(kind, worker, incarnation, round_, examples=0)
    return tf.stack([tf.cast(value, tf.int64) for value in message])


def _receive(channel: Channel, count: Tensor) -> Tensor:
    return channel.messages.dequeue_many(tf.maximum(count, channel.messages.size()))


def _send(channel: Channel, tokens: Tensor) -> Operation:
    """One op for any choice of workers: TensorFlow keeps a graph of its own for every set of ops
    that it is asked to run."""
    own = of_each(tokens, tf.cast(has_token(tokens), tf.int32), len(channel.tokens))
    return tf.group(
        *[queue.enqueue_many(rows) for queue, rows in zip(channel.tokens, own, strict=True)]
    )
