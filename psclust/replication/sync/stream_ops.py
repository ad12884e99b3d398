"""The chief's ops of a streamed round: a variable is updated as soon as every worker's gradient of
it has arrived, and goes back at once.

    gradients of v1 complete -> optimizer writes v1 -> stamp: workers read v1
                                                       while gradients of v2 still arrive

A round may turn out void when some variables have been updated. So a stream first keeps the values
of all that it will write, for a roll-back. They share the variables' memory until the optimizer
writes. For the successor of a chief that died there are the marks of `half_made` and, on each ps, a
*fence*, which it sets: a stream of an older round, which may not know that its chief is dead,
writes nothing any more, and no update counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import tensorflow as tf

from psclust.replication.by_device import at
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.gradients import GradientsAndVariables, scale
from psclust.replication.graph_walk import reached
from psclust.replication.passes.crossings import task_of
from psclust.replication.passes.local_copies import groups_of
from psclust.replication.settings import Settings
from psclust.replication.state_changes import state_changes, written
from psclust.replication.sync.accumulators import push, take
from psclust.replication.sync.barrier_channel import Channel
from psclust.replication.sync.half_made import begin_update, settled_on
from psclust.replication.sync.messages import of_each
from psclust.replication.sync.stamps import announce
from psclust.replication.tf_types import Accumulator, Operation, Optimizer, Tensor, Variable
from psclust.replication.towers.tower import Tower
from psclust.replication.update.apply_update import apply_update
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

    stream: updates the variables in the round of `members`. zeros: pushes a gradient of zero, over
    no examples, for each variable, of `round`. lacking: bool scalar, whether fewer gradients of a
    variable wait than a stream may take.

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
    stream: Sequence[Operation]
    zeros: Operation
    lacking: Tensor
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
    channel: Channel,
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
    members_on = _members_on(fed, workers)
    mean = _mean(channel, [v for _, v in tower.contributions], members_on, fences)
    applied = apply_update(optimizer, *tower.divide(mean), state, layout, settings)
    writers = written(changes := state_changes(applied, tower.roots))
    kept = _kept(writers)
    tags, begun = begin_update(changes, lambda device: members_on(device).round, kept)
    sent = {each.variable.op.name: each.sent for each in channel.copies if each.sent is not None}
    groups = [[copy.variable for copy in group] for group in groups_of(channel.copies)]
    announced = [
        stamp
        for group in groups
        for stamp in _announced(group, members_on(group[0].device).stamps, writers, sent)
    ]
    sums = [*channel.accumulators, *channel.examples.values()]
    return StreamOps(
        workers=workers,
        members=fed,
        round=round_,
        stream=_without_groups([*begun, *applied, *announced]),
        zeros=tf.group(*[_push_zero(each, round_) for each in sums]),
        lacking=tf.reduce_any(tf.stack([_lacks(each, workers) for each in sums])),
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
    [1], or none, int64 [0]. count: of the members, int32 scalar."""

    round: Tensor
    stamps: Sequence[Tensor]
    count: Tensor


def _members_on(fed: Tensor, workers: int) -> Callable[[str], _Members]:
    """The device of a ps -> the `_Members` there, built when they are first needed."""

    @cache
    def members_on(device: str) -> _Members:
        with tf.device(device), tf.control_dependencies(None):
            here = tf.identity(fed)
            round_, members = here[0], tf.cast(here[1:], tf.int32)
            stamps = of_each(tf.fill([workers], round_), members, workers)
            return _Members(round_, stamps, tf.reduce_sum(members))

    return members_on


def _mean(
    channel: Channel,
    variables: Sequence[Variable],
    members_on: Callable[[str], _Members],
    fences: Mapping[str, Cell],
) -> GradientsAndVariables:
    """The mean of all gradients of each of the `variables`, when it is complete."""
    factors = {}
    for device, accumulator in channel.examples.items():
        examples = take(accumulator, members_on(device).count)
        with tf.device(device):
            # In a void round there may be none.
            factors[device] = 1.0 / tf.maximum(examples, 1.0)
    means = []
    for accumulator, variable in zip(channel.accumulators, variables, strict=True):
        device = variable.device
        total = take(accumulator, members_on(device).count)
        with tf.device(device), tf.control_dependencies([total]):
            allowed = _admitted(fences[device], members_on(device).round)
        with tf.device(device), tf.control_dependencies([allowed]):
            means.append((scale(total, factors[device]), variable))
    return means


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


def _without_groups(operations: Sequence[Operation]) -> list[Operation]:
    """The ops, and in place of groups those that these wait for: a group of ops of several ps would
    cost a message from one to another."""
    found = reached(operations, lambda one: one.control_inputs if one.type == "NoOp" else ())
    return [operation for operation in found.values() if operation.type != "NoOp"]


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


def _push_zero(accumulator: Accumulator, round_: Tensor) -> Operation:
    shape = accumulator.accumulator_ref.op.get_attr("shape")
    with tf.device(accumulator.accumulator_ref.device):
        return push(accumulator, tf.zeros(shape, accumulator.dtype), round_)


def _lacks(accumulator: Accumulator, workers: int) -> Tensor:
    with tf.device(accumulator.accumulator_ref.device):
        return accumulator.num_accumulated() < workers
