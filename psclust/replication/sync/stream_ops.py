"""The chief's ops of a streamed round: a variable is updated as soon as every worker's gradient of
it has arrived, and goes back at once.

    gradients of v1 complete -> optimizer writes v1 -> stamp: workers read v1
    (while gradients of v2 still arrive)

A round may turn out void when some variables have been updated. So a stream begins by keeping the
values of all that it will write; kept values share the variables' memory until the optimizer
writes. On each ps it then notes its round, the *tag*, which tells the successor of a chief that
died whether the ps may be half updated: if it is greater than `settled`, the last round that was
counted or rolled back. The successor also sets a *fence* on each ps: a stream of an older round,
which may not know that its chief is dead, writes nothing any more.

When it has ended everywhere, it tells the first ps, where the update waits that counts the step
(`stream_ends`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from psclust.replication.by_device import moved
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.graph_walk import before, reached, uses_state
from psclust.replication.settings import Settings
from psclust.replication.sync.accumulators import AccumulatorOps, accumulator_ops, at, take
from psclust.replication.sync.arrivals import Arrivals, arrivals_of, others_of, place_of
from psclust.replication.sync.readiness import announce, of_each, stamped
from psclust.replication.sync.step_report import StepReport
from psclust.replication.sync.stream_ends import StreamEnds
from psclust.replication.tf_types import Accumulator, Operation, Optimizer, Tensor, Variable
from psclust.replication.towers.tower import Tower
from psclust.replication.update.apply_update import apply_update
from psclust.replication.update.descent_beside import descent_beside
from psclust.replication.update.gradients import GradientsAndVariables, scaled_sum
from psclust.replication.variables.cell import Cell, Mark, cell
from psclust.replication.variables.training_state import State
from psclust.replication.wire.crossings import task_of
from psclust.replication.wire.differences import difference, last_difference, level
from psclust.replication.wire.local_copies import LocalCopy, bring, groups_of


@dataclass(frozen=True)
class StreamChannel:
    """What a streamed round needs beside the channel. arrivals: one for each pair of
    `Tower.contributions`, in its order. examples: for each ps with some, by its device, the
    accumulator of the number of examples. copies: of this worker."""

    arrivals: Sequence[Arrivals]
    examples: Mapping[str, Accumulator]
    copies: Sequence[LocalCopy]


@dataclass(frozen=True)
class StreamOps:
    """orders: for each ps, int64 [1 + workers], to feed with the round, then 1 for each worker that
    takes part. round: int64 scalar placeholder.

    stream: updates the variables as `orders` say; a place of `Arrivals` that none of these workers
    has needs gradients of zero. Fetches whether all gradients that were taken are of the round,
    bool scalar; it is void if one is of another. reported: its op that says that it has ended.
    other_round: the round, int64 scalar; exists only if a gradient of another was taken. admits:
    makes a bool scalar, whether a round, int64 scalar, is behind no fence. zeros: for each place,
    pushes one of each variable, numbered `round`. no_examples: goes with one, on each ps. lacking:
    bool [places + 1], at which places less waits than a stream may take, and whether examples do.
    sums: all that holds gradients or examples. tags, settled: see above. fence: sets all fences to
    `round`, and has an update fail that waits for a stream; fenced: bool [ps], which are set.
    roll_back: gives the variables of a ps back the values they had. level: takes it that all copies
    have the values of the variables, before workers pull. release: stamps `round` for all workers.
    settle: sets `settled` to `round`. forget: takes it that no stream has ended which is not
    counted. ended: makes an op that waits for the end of the last stream, in the current control
    dependencies. counted: makes one that sets `settled` to its round. Mappings have the device of
    each ps as key.
    """

    workers: int
    orders: Sequence[Tensor]
    round: Tensor
    stream: Sequence[Tensor | Operation]
    reported: Operation
    other_round: Tensor
    admits: Callable[[Tensor], Tensor]
    zeros: Sequence[Operation]
    no_examples: Operation
    lacking: Tensor
    sums: AccumulatorOps
    tags: Mapping[str, Mark]
    settled: Mark
    fence: Operation
    fenced: Tensor
    roll_back: Mapping[str, Operation]
    level: Operation
    release: Operation
    settle: Operation
    forget: Operation
    ended: Callable[[], Operation]
    counted: Callable[[], Operation]


def stream_channel(
    variables: Sequence[Variable], copies: Sequence[LocalCopy], workers: int
) -> StreamChannel:
    """Creates in the current graph what the workers share, on each ps that has one of the
    `variables`."""
    examples = {}
    for device in dict.fromkeys(variable.device for variable in variables):
        with tf.device(device):
            # SUM, as in `accumulator_for`.
            kind = tf.compat.v1.ConditionalAccumulator
            examples[device] = kind(
                tf.float64, shape=[], shared_name="psclust/examples", reduction_type="SUM"
            )
    return StreamChannel(
        [arrivals_of(variable, workers) for variable in variables], examples, copies
    )


def push_streamed(
    channel: StreamChannel,
    worker: int,
    gradients: Sequence[Tensor],
    examples: Mapping[str, Tensor],
    rounds: Mapping[str, Tensor],
) -> list[Operation]:
    """The ops that push this worker's gradients, and its number of examples on each ps; mappings by
    its device."""
    pushed = [
        _push_examples(channel, device, examples[device], rounds[device])
        for device in channel.examples
    ]
    for arrivals, gradient in zip(channel.arrivals, gradients, strict=True):
        pushed.append(arrivals.push(place_of(worker), gradient, rounds[arrivals.variable.device]))
    return pushed


@dataclass(frozen=True)
class Brought:
    """operations: those that bring a worker's copies up to date, each when its variable has been
    updated. stamps: by which they know, for each ps, int64 scalars; next_stamps: for each of them
    the one after it, to be taken alone."""

    operations: Sequence[Operation] = ()
    stamps: Sequence[Sequence[Tensor]] = ()
    next_stamps: Sequence[Sequence[Tensor]] = ()


def bring_updated(channel: StreamChannel, worker: int) -> Brought:
    taken: dict[str, list[Tensor]] = {}
    following: dict[str, list[Tensor]] = {}

    def arriving(group: Sequence[LocalCopy]) -> list[Tensor]:
        device, variables = group[0].variable.device, [copy.variable for copy in group]
        stamp = stamped(variables, worker)
        taken.setdefault(device, []).append(stamp)
        following.setdefault(device, []).append(stamped(variables, worker))
        with tf.device(device), tf.control_dependencies([stamp]):
            return [
                c.variable.read_value() if c.sent is None else last_difference(c.sent).read()
                for c in group
            ]

    operations = [
        operation for each in bring(channel.copies, arriving).values() for operation in each
    ]
    return Brought(operations, list(taken.values()), list(following.values()))


def stream_ops(
    tower: Tower,
    channel: StreamChannel,
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
    report: StepReport,
) -> StreamOps:
    """The ops of the chief. report: of its own replica."""
    with tf.device(layout.client):
        round_ = tf.compat.v1.placeholder(tf.int64, [], name="round")
    anchors = {arrivals.variable.device: arrivals.variable for arrivals in channel.arrivals}
    orders = _Orders(report, len(layout.workers))
    tags = {device: _tag(device) for device in dict.fromkeys([layout.parameters, *anchors])}
    built = len(tf.compat.v1.get_default_graph().get_operations())
    fences = {device: cell("psclust/fence", tf.int64, [], device) for device in tags}
    mean, taken = _mean(channel, orders, fences)
    applied = apply_update(descent_beside(optimizer), *tower.divide(mean), state, layout, settings)
    new = {
        operation.name for operation in tf.compat.v1.get_default_graph().get_operations()[built:]
    }
    within = [operation for operation in reached(applied, before).values() if operation.name in new]
    written = _writers(within)
    kept, begun = _keep(
        [variable for variable, _ in written.values()],
        [each for each in within if uses_state(each)],
        orders,
        tags,
    )
    sent = {copy.variable.op.name: copy.sent for copy in channel.copies if copy.sent is not None}
    groups = [[copy.variable for copy in group] for group in groups_of(channel.copies)]
    announced = [
        stamp
        for group in groups
        for stamp in _announced(group, orders.on(group[0].device), written, sent)
    ]
    settled = cell("psclust/settled", tf.int64, [], layout.parameters)
    ends = StreamEnds.on(layout.parameters)
    ended = _ended(taken, [*begun, *applied, *announced])
    reported, own, other = ends.tell(orders.on(layout.parameters).round, ended)
    return StreamOps(
        workers=len(layout.workers),
        orders=orders.fed,
        round=round_,
        stream=[reported, moved(own, layout.client)],
        reported=reported,
        other_round=other,
        admits=lambda round_: fences[layout.parameters].read() <= round_,
        zeros=[
            tf.group(*[each.push_zero(place, round_) for each in channel.arrivals])
            for place in channel.arrivals[0].places
        ],
        no_examples=tf.group(
            *[
                _push_examples(channel, device, tf.constant(0), round_)
                for device in channel.examples
            ]
        ),
        lacking=_lacking(channel, anchors, len(layout.workers)),
        sums=_sums(channel, anchors, round_),
        tags={device: tag.mark() for device, tag in tags.items()},
        settled=settled.mark(),
        fence=ends.fail([fence.set(round_) for fence in fences.values()]),
        fenced=tf.stack([fence.is_set() for fence in fences.values()]),
        level=tf.group(
            *[level(copy.variable, copy.sent) for copy in channel.copies if copy.sent is not None]
        ),
        roll_back={
            device: tf.group(*[_restore(v, value) for v, value in kept if v.device == device])
            for device in tags
        },
        release=_released(groups, round_, len(layout.workers)),
        settle=settled.set(round_),
        forget=ends.forget(),
        ended=lambda: ends.await_one(tags[layout.parameters]),
        counted=lambda: settled.set(tags[settled.device].read()),
    )


@dataclass(frozen=True)
class _Order:
    """One of `StreamOps.orders`. round: int64 scalar. rounds: for each worker, what to stamp, int64
    [1] or [0]. gradients: of how many workers; others: how many of them an accumulator of
    `Arrivals` gets; int32 scalars."""

    fed: Tensor
    round: Tensor
    rounds: Sequence[Tensor]
    gradients: Tensor
    others: Tensor


class _Orders:
    """Those of all ps, each made when it is needed."""

    def __init__(self, report: StepReport, workers: int) -> None:
        self._report = report
        self._workers = workers
        self._made: dict[str, _Order] = {}

    def on(self, device: str) -> _Order:
        if device not in self._made:
            with tf.device(device), tf.control_dependencies(None):
                fed = self._report.stream_order(device)
                round_, taking_part = fed[0], tf.cast(fed[1:], tf.int32)
                rounds = of_each(tf.fill([self._workers], round_), taking_part, self._workers)
                self._made[device] = _Order(
                    fed, round_, rounds, tf.reduce_sum(taking_part), others_of(taking_part)
                )
        return self._made[device]

    @property
    def fed(self) -> list[Tensor]:
        return [order.fed for order in self._made.values()]


def _push_examples(
    channel: StreamChannel, device: str, examples: Tensor, round_: Tensor
) -> Operation:
    with tf.device(device):
        return channel.examples[device].apply_grad(tf.cast(examples, tf.float64), local_step=round_)


def _sums(
    channel: StreamChannel, anchors: Mapping[str, Variable], round_: Tensor
) -> AccumulatorOps:
    """The ops on all that holds gradients or examples."""
    others = [(each.others, each.variable) for each in channel.arrivals if each.others is not None]
    pairs = [
        *others,
        *((accumulator, anchors[device]) for device, accumulator in channel.examples.items()),
    ]
    added = accumulator_ops(
        [a for a, _ in pairs], [v for _, v in pairs], [take(a, v) for a, v in pairs], round_
    )
    queues = [
        (each, place, queue) for each in channel.arrivals for place, queue in enumerate(each.queues)
    ]
    counts = [each.count(place) for each, place, _ in queues]
    emptied = [
        at(each.variable, queue.dequeue_many, count)[0].op
        for (each, _, queue), count in zip(queues, counts, strict=True)
    ]
    return replace(added, counts=[*added.counts, *counts], empty=[*added.empty, *emptied])


def _lacking(channel: StreamChannel, anchors: Mapping[str, Variable], workers: int) -> Tensor:
    """See `StreamOps`."""
    fewer = [
        tf.reduce_any(
            tf.stack([each.count(place) < each.most(place, workers) for each in channel.arrivals])
        )
        for place in channel.arrivals[0].places
    ]
    examples = [
        at(anchors[device], accumulator.num_accumulated)
        for device, accumulator in channel.examples.items()
    ]
    return tf.stack([*fewer, tf.reduce_min(tf.stack(examples)) < workers])


def _mean(
    channel: StreamChannel, orders: _Orders, fences: Mapping[str, Cell]
) -> tuple[GradientsAndVariables, Mapping[str, Sequence[Tensor]]]:
    """(the mean of all gradients of each variable, when it is complete; for each ps, the rounds of
    gradients that were taken)."""
    factors = {}
    for device, accumulator in channel.examples.items():
        with tf.device(device):
            # In a void round there may be none.
            factor = 1.0 / tf.maximum(accumulator.take_grad(orders.on(device).gradients), 1.0)
            dtypes = {
                each.variable.dtype.base_dtype
                for each in channel.arrivals
                if each.variable.device == device
            }
            factors[device] = {dtype: tf.cast(factor, dtype) for dtype in dtypes}
    means = []
    rounds: dict[str, list[Tensor]] = {device: [] for device in factors}
    for arrivals in channel.arrivals:
        device = arrivals.variable.device
        gradients, each = arrivals.take(orders.on(device).others)
        rounds[device] += each
        with tf.device(device), tf.control_dependencies(gradients):
            current = fences[device].read()
            allowed = tf.raw_ops.Assert(
                condition=current <= orders.on(device).round,
                data=["the stream of an earlier chief"],
            )
        with tf.device(device), tf.control_dependencies([allowed]):
            # What takes the sum apart is held back as well.
            gradients[0] = tf.identity(gradients[0])
        with tf.device(device):
            means.append(
                (scaled_sum(gradients, factors[device][gradients[0].dtype]), arrivals.variable)
            )
    return means, rounds


def _ended(taken: Mapping[str, Sequence[Tensor]], stream: Sequence[Operation]) -> list[Tensor]:
    """For each ps, the rounds of gradients that were taken, when the ops of the stream there have
    ended: it then sends no other word of that."""
    ended: dict[str, list[Operation]] = {}
    waiting = list(stream)
    while waiting:
        operation = waiting.pop()
        if operation.type == "NoOp":
            waiting.extend(operation.control_inputs)
        else:
            ended.setdefault(operation.device, []).append(operation)
    rounds = []
    for device, each in ended.items():
        with tf.device(device):
            there = tf.stack(taken[device]) if device in taken else tf.zeros([0], tf.int64)
            with tf.control_dependencies(each):
                rounds.append(tf.identity(there))
    return rounds


def _keep(
    written: Sequence[Variable], within: Sequence[Operation], orders: _Orders, tags: dict[str, Cell]
) -> tuple[list[tuple[Variable, Cell]], list[Operation]]:
    """Makes the ops `within`, which use state, wait until the values of all variables `written` are
    kept and the tag of their ps is set, which waits for the order; adds tags where some are
    missing. Returns the variables, each with the cell of its value, and the ops that set the
    tags."""
    kept = [
        (v, cell(f"psclust/before/{v.op.name}", v.dtype.base_dtype, v.shape, v.device))
        for v in written
    ]
    begun = []
    for device in dict.fromkeys([*tags, *(variable.device for variable, _ in kept)]):
        round_ = orders.on(device).round
        with tf.device(device), tf.control_dependencies([round_]):
            keeps = [
                value.set(variable.read_value())
                for variable, value in kept
                if variable.device == device
            ]
            with tf.control_dependencies(keeps):
                begun.append(tags.setdefault(device, _tag(device)).set(tf.identity(round_)))
        for operation in within:
            if task_of(operation) == task_of(begun[-1]):
                operation._add_control_input(begun[-1])
    return kept, begun


def _writers(within: Sequence[Operation]) -> dict[str, tuple[Variable, list[Operation]]]:
    """name -> (global variable, the ops in `within` that write to it), of all that have some."""
    names, found = {operation.name for operation in within}, {}
    for variable in tf.compat.v1.global_variables():
        writers = [
            use
            for use in variable.handle.consumers()
            if use.name in names and use.type != "ReadVariableOp"
        ]
        if writers:
            found[variable.op.name] = (variable, writers)
    return found


def _announced(
    group: Sequence[Variable],
    order: _Order,
    written: Mapping[str, tuple[Variable, list[Operation]]],
    sent: Mapping[str, Variable],
) -> list[Operation]:
    """The ops that announce the update of a group of variables to the workers, with what these have
    to know of it."""
    after = [
        writer for variable in group for writer in written.get(variable.op.name, (variable, []))[1]
    ]
    for variable in group:
        if variable.op.name in sent:
            with tf.device(variable.device), tf.control_dependencies(after):
                message = difference(variable.read_value(), sent[variable.op.name])
            after = [last_difference(sent[variable.op.name]).set(message)]
    return announce(group, order.rounds, after)


def _released(groups: Sequence[Sequence[Variable]], round_: Tensor, workers: int) -> Operation:
    """The op that stamps `round_` for all workers."""
    rounds = {group[0].device: at(group[0], tf.reshape, round_, [1]) for group in groups}
    return tf.group(
        *[
            stamp
            for group in groups
            for stamp in announce(group, [rounds[group[0].device]] * workers, [])
        ]
    )


def _tag(device: str) -> Cell:
    return cell("psclust/tag", tf.int64, [], device)


def _restore(variable: Variable, value: Cell) -> Operation:
    with tf.device(variable.device):
        return variable.assign(value.read(), read_value=False)
