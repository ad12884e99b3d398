"""The chief's ops of a streamed round: a variable is updated as soon as every worker's gradient of
it has arrived, and goes back at once.

    gradients of v1 complete -> optimizer writes v1 -> stamp: workers read v1
                                                       while gradients of v2 still arrive

A round may turn out void when some variables have been updated. So a stream first keeps the values
of all that it will write, for a roll-back. They share the variables' memory until the optimizer
writes. Three numbers are for the successor of a chief that died:

    tag      on each ps, the last round whose stream has begun there
    settled  on the first ps, the last round that was counted or rolled back: a ps with a greater
             tag may be half updated
    fence    on each ps, set by the successor: a stream of an older round, which may not know that
             its chief is dead, writes nothing any more, and no update counts it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from psclust.replication.by_device import at, moved
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.gradients import GradientsAndVariables, scaled_sum
from psclust.replication.passes.crossings import task_of
from psclust.replication.passes.local_copies import groups_of
from psclust.replication.settings import Settings
from psclust.replication.state_changes import state_changes, written
from psclust.replication.sync.accumulators import AccumulatorOps, accumulator_ops
from psclust.replication.sync.arrivals import others_of
from psclust.replication.sync.half_made import begin_update, settled_on
from psclust.replication.sync.messages import of_each
from psclust.replication.sync.stream_channel import StreamChannel, announce, push_examples
from psclust.replication.tf_types import Operation, Optimizer, Tensor, Variable
from psclust.replication.towers.tower import Tower
from psclust.replication.update.apply_update import apply_update
from psclust.replication.update.descent_beside import descent_beside
from psclust.replication.variables.cell import Cell, Mark, cell
from psclust.replication.variables.training_state import State
from psclust.replication.wire.differences import difference, last_difference, level

# The error of a chief at the fence.
EARLIER_CHIEF = "the stream of an earlier chief"


@dataclass(frozen=True)
class StreamOps:
    """Mappings have the device of each ps as key.

    members: int64 [1 + workers] placeholder, the round, then for each worker 1 if it is a member of
    the stream, else 0. round: int64 scalar placeholder.

    stream: updates the variables in the round of `members`, and gives for each ps the rounds of the
    gradients that were taken there, int64; all of them have to be that round. An inlet of
    `Arrivals` that no member has needs gradients of zero. zeros: for each inlet, pushes a gradient
    of zero for each variable, of `round`. no_examples: pushes that these are over no examples, to
    each ps. lacking: bool [inlets + 1], at which inlets fewer gradients wait than a stream may
    take, and whether that is so of the examples. sums: all that holds gradients or examples.

    tags: see `half_made`. settle: sets `settled` to `round`. fence: sets all fences to `round`;
    fenced: which are set, bool [ps]. roll_back: restores the values that the variables of a ps had.
    admitted(round): builds an op that fails if the fence of the first ps is ahead of that round,
    int64 scalar.

    level: before workers pull, notes on the ps that all copies have the values of the variables.
    release: stamps `round` for all workers.
    """

    workers: int
    members: Tensor
    round: Tensor
    stream: Sequence[Tensor]
    zeros: Sequence[Operation]
    no_examples: Operation
    lacking: Tensor
    sums: AccumulatorOps
    tags: Mapping[str, Mark]
    fence: Operation
    fenced: Tensor
    roll_back: Mapping[str, Operation]
    level: Operation
    release: Operation
    settle: Operation
    admitted: Callable[[Tensor], Operation]


def stream_ops(
    tower: Tower,
    channel: StreamChannel,
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
    round_: Tensor,
) -> StreamOps:
    """round_: int64 scalar placeholder."""
    workers = len(layout.workers)
    with tf.device(layout.client):
        fed = tf.compat.v1.placeholder(tf.int64, [1 + workers], name="members")
    devices = dict.fromkeys([layout.parameters, *channel.examples])
    fences = {each: cell("psclust/fence", tf.int64, [], each) for each in devices}
    fed_on = _Fed(fed, workers)
    mean, taken = _mean(channel, fed_on, fences)
    applied = apply_update(descent_beside(optimizer), *tower.divide(mean), state, layout, settings)
    writers = written(changes := state_changes(applied, tower.roots))
    kept = _kept(writers)
    tags, begun = begin_update(changes, lambda device: fed_on[device].round, kept)
    sent = {each.variable.op.name: each.sent for each in channel.copies if each.sent is not None}
    groups = [[copy.variable for copy in group] for group in groups_of(channel.copies)]
    announced = [
        stamp
        for group in groups
        for stamp in _announced(group, fed_on[group[0].device].stamps, writers, sent)
    ]
    ended = _ended(taken, [*begun, *applied, *announced])
    pushed = {
        inlet: [each.push_zero(inlet, round_) for each in channel.arrivals]
        for inlet in channel.arrivals[0].inlets
    }
    counts = [push_examples(channel, each, tf.constant(0), round_) for each in channel.examples]
    return StreamOps(
        workers=workers,
        members=fed,
        round=round_,
        stream=[moved(each, layout.client) for each in ended],
        zeros=[tf.group(*pushes) for pushes in pushed.values()],
        no_examples=tf.group(*counts),
        lacking=_lacking(channel, workers),
        sums=_sums(channel, round_),
        tags=tags,
        fence=tf.group(*[fence.set(round_) for fence in fences.values()]),
        fenced=tf.stack([fence.is_set() for fence in fences.values()]),
        roll_back={
            device: tf.group(
                *[_restore(v, value) for v, value in kept if task_of(v.handle.op) == device]
            )
            for device in tags
        },
        level=tf.group(
            *[level(each.variable, each.sent) for each in channel.copies if each.sent is not None]
        ),
        release=_released(groups, round_, workers),
        settle=settled_on(layout.parameters).set(round_),
        admitted=lambda round_: _admitted(fences[layout.parameters], round_),
    )


@dataclass(frozen=True)
class _Members:
    """`StreamOps.members` on a ps. round: int64 scalar. stamps: for each worker its stamp, int64
    [1], or none, int64 [0]. count: of the members; others: how many gradients to take from an
    accumulator of `Arrivals`; int32 scalars."""

    round: Tensor
    stamps: Sequence[Tensor]
    count: Tensor
    others: Tensor


class _Fed(dict[str, _Members]):
    """The `_Members` of each ps, by its device, built when they are first needed."""

    def __init__(self, fed: Tensor, workers: int) -> None:
        super().__init__()
        self._fed = fed
        self._workers = workers

    def __missing__(self, device: str) -> _Members:
        with tf.device(device), tf.control_dependencies(None):
            here = tf.identity(self._fed)
            round_, members = here[0], tf.cast(here[1:], tf.int32)
            stamps = of_each(tf.fill([self._workers], round_), members, self._workers)
            self[device] = _Members(round_, stamps, tf.reduce_sum(members), others_of(members))
        return self[device]


def _mean(
    channel: StreamChannel, fed_on: _Fed, fences: Mapping[str, Cell]
) -> tuple[GradientsAndVariables, Mapping[str, Sequence[Tensor]]]:
    """(the mean of all gradients of each variable, when it is complete; for each ps, the rounds of
    gradients that were taken)."""
    factors = {}
    for device, accumulator in channel.examples.items():
        with tf.device(device):
            # In a void round there may be none.
            examples = accumulator.take_grad(fed_on[device].count)
            factor = 1.0 / tf.maximum(examples, 1.0)
            here = [each.variable for each in channel.arrivals if each.variable.device == device]
            dtypes = {variable.dtype.base_dtype for variable in here}
            factors[device] = {dtype: tf.cast(factor, dtype) for dtype in dtypes}
    means = []
    rounds: dict[str, list[Tensor]] = {device: [] for device in factors}
    for arrivals in channel.arrivals:
        device = arrivals.variable.device
        gradients, each = arrivals.take(fed_on[device].others)
        rounds[device] += each
        with tf.device(device), tf.control_dependencies(gradients):
            allowed = _admitted(fences[device], fed_on[device].round)
        with tf.device(device), tf.control_dependencies([allowed]):
            # What takes the sum apart is held back as well.
            gradients[0] = tf.identity(gradients[0])
        with tf.device(device):
            factor = factors[device][gradients[0].dtype]
            means.append((scaled_sum(gradients, factor), arrivals.variable))
    return means, rounds


def _admitted(fence: Cell, round_: Tensor) -> Operation:
    with tf.device(fence.device):
        return tf.raw_ops.Assert(condition=fence.read() <= round_, data=[EARLIER_CHIEF])


def _kept(
    writers: Mapping[str, tuple[Variable, list[Operation]]],
) -> list[tuple[Variable, Cell]]:
    """Each variable that is written, with the cell of the value it had before."""
    return [
        (v, cell(f"psclust/before/{name}", v.dtype.base_dtype, v.shape, v.device))
        for name, (v, _) in writers.items()
    ]


def _ended(taken: Mapping[str, Sequence[Tensor]], stream: Sequence[Operation]) -> list[Tensor]:
    """For each ps, the rounds of the gradients that were taken, when the ops of the `stream` there
    have ended: one message tells both."""
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


def _announced(
    group: Sequence[Variable],
    stamps: Sequence[Tensor],
    written: Mapping[str, tuple[Variable, list[Operation]]],
    sent: Mapping[str, Variable],
) -> list[Operation]:
    """The ops that announce to the workers that a group of variables is updated. Before that they
    keep, for each of them that travels as int8, the difference that workers will read."""
    after = [
        writer for variable in group for writer in written.get(variable.op.name, (variable, []))[1]
    ]
    for variable in group:
        if variable.op.name in sent:
            with tf.device(variable.device), tf.control_dependencies(after):
                message = difference(variable.read_value(), sent[variable.op.name])
            after = [last_difference(sent[variable.op.name]).set(message)]
    return announce(group, stamps, after)


def _released(groups: Sequence[Sequence[Variable]], round_: Tensor, workers: int) -> Operation:
    """The op that stamps `round_` for all workers."""
    rounds = {group[0].device: at(group[0].device, tf.reshape, round_, [1]) for group in groups}
    return tf.group(
        *[
            stamp
            for group in groups
            for stamp in announce(group, [rounds[group[0].device]] * workers, [])
        ]
    )


def _restore(variable: Variable, value: Cell) -> Operation:
    with tf.device(variable.device):
        return variable.assign(value.read(), read_value=False)


def _sums(channel: StreamChannel, round_: Tensor) -> AccumulatorOps:
    """The ops on all that holds gradients or examples."""
    others = [each.others for each in channel.arrivals if each.others is not None]
    added = accumulator_ops([*others, *channel.examples.values()], round_)
    queues = [
        (each, inlet, queue) for each in channel.arrivals for inlet, queue in enumerate(each.queues)
    ]
    counts = [each.count(inlet) for each, inlet, _ in queues]
    emptied = [
        at(each.variable.device, queue.dequeue_many, count)[0].op
        for (each, _, queue), count in zip(queues, counts, strict=True)
    ]
    return replace(added, counts=[*added.counts, *counts], empty=[*added.empty, *emptied])


def _lacking(channel: StreamChannel, workers: int) -> Tensor:
    """See `StreamOps`."""
    fewer = [
        tf.reduce_any(
            tf.stack([each.count(inlet) < each.most(inlet, workers) for each in channel.arrivals])
        )
        for inlet in channel.arrivals[0].inlets
    ]
    examples = [at(device, each.num_accumulated) for device, each in channel.examples.items()]
    return tf.stack([*fewer, tf.reduce_min(tf.stack(examples)) < workers])
