"""The chief's ops of a streamed round: a variable is updated as soon as every worker's gradient of it has arrived, and goes back at once.

    gradients of v1 complete -> optimizer writes v1 -> stamp: workers read v1        while gradients of v2 still arrive

A round may turn out void when some variables have been updated. So a stream begins by keeping the values of all that it will write; kept
values share the variables' memory until the optimizer writes. On each ps it then notes its round, the *tag*, which tells the successor of a
chief that died whether the ps may be half updated: if it is greater than `settled`, the last round that was counted or rolled back. The
successor also sets a *fence* on each ps: a stream of an older round, which may not know that its chief is dead, writes nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.device_layout import DeviceLayout
from psclust.replication.graph_walk import before, reached
from psclust.replication.settings import Settings
from psclust.replication.sync.accumulators import AccumulatorOps, accumulator_ops, at, push, take
from psclust.replication.sync.readiness import announce, stamped
from psclust.replication.tf_types import Accumulator, Operation, Optimizer, Tensor, Variable
from psclust.replication.towers.tower import Tower
from psclust.replication.update.apply_update import apply_update
from psclust.replication.update.gradients import GradientsAndVariables, scale
from psclust.replication.variables.cell import Cell, cell
from psclust.replication.variables.training_state import State
from psclust.replication.wire.differences import difference, last_difference, level
from psclust.replication.wire.local_copies import LocalCopy, bring, groups_of

_TAKES = frozenset({"AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient"})


@dataclass(frozen=True)
class StreamChannel:
    """What a streamed round needs beside the channel. examples: for each ps with accumulators, by its device, the accumulator of the
    number of examples. copies: of this worker."""

    examples: Mapping[str, Accumulator]
    copies: Sequence[LocalCopy]


@dataclass(frozen=True)
class Mark:
    """What a cell holds: value, int64 scalar, fails unless `known`."""

    known: Tensor
    value: Tensor


@dataclass(frozen=True)
class StreamOps:
    """order: int64 [1 + workers] placeholder, the round, then 1 for each worker that takes part. round: int64 scalar placeholder.

    stream: updates the variables as `order` says. fill: pushes one gradient of zero, numbered `round`, into each accumulator. sums: all
    accumulators. tags, settled: see above. fence: sets all fences to `round`; fenced: bool [ps], which are set. roll_back: gives the
    variables of a ps back the values they had. level: takes it that all copies have the values of the variables, before workers pull.
    release: stamps `round` for all workers. settle: sets `settled` to `round`. counted: makes an op that sets it to the round of the last
    stream, in the current control dependencies. Mappings have the device of each ps as key.
    """

    workers: int
    order: Tensor
    round: Tensor
    stream: Operation
    fill: Operation
    sums: AccumulatorOps
    tags: Mapping[str, Mark]
    settled: Mark
    fence: Operation
    fenced: Tensor
    roll_back: Mapping[str, Operation]
    level: Operation
    release: Operation
    settle: Operation
    counted: Callable[[], Operation]


def stream_channel(variables: Sequence[Variable], copies: Sequence[LocalCopy]) -> StreamChannel:
    """Creates the shared accumulators of the examples in the current graph, on each ps that has one of the `variables`."""
    examples = {}
    for device in dict.fromkeys(variable.device for variable in variables):
        with tf.device(device):
            # SUM, as in `accumulator_for`.
            kind = tf.compat.v1.ConditionalAccumulator
            examples[device] = kind(tf.float64, shape=[], shared_name="psclust/examples", reduction_type="SUM")
    return StreamChannel(examples, copies)


def push_examples(channel: StreamChannel, examples: Mapping[str, Tensor], rounds: Mapping[str, Tensor]) -> list[Operation]:
    """The ops that push this worker's number of examples on each ps; both arguments by its device."""
    pushed = []
    for device, accumulator in channel.examples.items():
        with tf.device(device):
            pushed.append(accumulator.apply_grad(tf.cast(examples[device], tf.float64), local_step=rounds[device]))
    return pushed


def bring_updated(channel: StreamChannel, worker: int) -> tuple[list[Operation], Mapping[str, Sequence[Tensor]]]:
    """(the ops that bring this worker's copies up to date, each when its variable has been updated; the stamps by which they know, for each
    ps by its device, int64 scalars)."""
    taken: dict[str, list[Tensor]] = {}

    def arriving(group: Sequence[LocalCopy]) -> list[Tensor]:
        device = group[0].variable.device
        stamp = stamped([copy.variable for copy in group], worker)
        taken.setdefault(device, []).append(stamp)
        with tf.device(device), tf.control_dependencies([stamp]):
            return [c.variable.read_value() if c.sent is None else last_difference(c.sent).read() for c in group]

    return [operation for operations in bring(channel.copies, arriving).values() for operation in operations], taken


def stream_ops(
    tower: Tower,
    accumulators: Sequence[Accumulator],
    channel: StreamChannel,
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
) -> StreamOps:
    """The ops of the chief, with the accumulators of `Tower.contributions`."""
    variables = [variable for _, variable in tower.contributions]
    round_ = tf.compat.v1.placeholder(tf.int64, [], name="round")
    order = tf.compat.v1.placeholder(tf.int64, [1 + len(layout.workers)], name="stream_order")
    anchors = {variable.device: variable for variable in variables}
    orders = {device: at(variable, _Order.of, order) for device, variable in anchors.items()}
    tags = {device: _tag(device) for device in dict.fromkeys([layout.parameters, *anchors])}
    built = len(tf.compat.v1.get_default_graph().get_operations())
    fences = {device: cell("psclust/fence", tf.int64, [], device) for device in anchors}
    mean = _mean(variables, accumulators, channel, orders, fences)
    applied = apply_update(optimizer, *tower.divide(mean), state, layout, settings)
    new = {operation.name for operation in tf.compat.v1.get_default_graph().get_operations()[built:]}
    within = [operation for operation in reached(applied, before).values() if operation.name in new]
    written = _writers(within)
    kept, begun = _keep(written, [operation for operation in within if operation.type in _TAKES], order, tags)
    sent = {copy.variable.op.name: copy.sent for copy in channel.copies if copy.sent is not None}
    groups = [[copy.variable for copy in group] for group in groups_of(channel.copies)]
    announced = [stamp for group in groups for stamp in _announced(group, orders[group[0].device], written, sent)]
    both, places = [*accumulators, *channel.examples.values()], [*variables, *(anchors[device] for device in channel.examples)]
    zeros = [at(place, tf.zeros, one.accumulator_ref.op.get_attr("shape"), one.dtype) for one, place in zip(both, places, strict=True)]
    settled = cell("psclust/settled", tf.int64, [], layout.parameters)
    return StreamOps(
        workers=len(layout.workers),
        order=order,
        round=round_,
        stream=tf.group(*begun, *applied, *announced),
        fill=tf.group(*[push(a, zero, v, round_) for a, zero, v in zip(both, zeros, places, strict=True)]),
        sums=accumulator_ops(both, places, [take(a, v) for a, v in zip(both, places, strict=True)], round_),
        tags={device: _mark(tag) for device, tag in tags.items()},
        settled=_mark(settled),
        fence=tf.group(*[fence.set(round_) for fence in fences.values()]),
        fenced=tf.stack([fence.is_set() for fence in fences.values()]),
        level=tf.group(*[level(copy.variable, copy.sent) for copy in channel.copies if copy.sent is not None]),
        roll_back={device: tf.group(*[_restore(v, value) for v, value in kept if v.device == device]) for device in tags},
        release=_released(groups, round_, len(layout.workers)),
        settle=settled.set(round_),
        counted=lambda: settled.set(tags[settled.device].read()),
    )


@dataclass(frozen=True)
class _Order:
    """`StreamOps.order` on a ps. rounds: for each worker, what to stamp, int64 [1] or [0]. gradients: of how many workers, int32."""

    round: Tensor
    rounds: Sequence[Tensor]
    gradients: Tensor

    @classmethod
    def of(cls, order: Tensor) -> _Order:
        order = tf.identity(order)
        rounds = [order[:count] for count in tf.unstack(order[1:])]
        return cls(order[0], rounds, tf.cast(tf.reduce_sum(order[1:]), tf.int32))


def _mean(
    variables: Sequence[Variable],
    accumulators: Sequence[Accumulator],
    channel: StreamChannel,
    orders: Mapping[str, _Order],
    fences: Mapping[str, Cell],
) -> GradientsAndVariables:
    """The mean of all gradients of each variable, when it is complete."""
    factors = {}
    for device, accumulator in channel.examples.items():
        with tf.device(device):
            # In a void round there may be none.
            examples = tf.maximum(accumulator.take_grad(orders[device].gradients), 1.0)
            factors[device] = 1.0 / examples
    means = []
    for accumulator, variable in zip(accumulators, variables, strict=True):
        device = variable.device
        taken = take(accumulator, variable, orders[device].gradients)
        with tf.device(device), tf.control_dependencies([taken]):
            current = fences[device].read()
            allowed = tf.debugging.Assert(current <= orders[device].round, ["the stream of an earlier chief"])
        with tf.device(device), tf.control_dependencies([allowed]):
            means.append((scale(taken, factors[device]), variable))
    return means


def _keep(
    written: Mapping[str, tuple[Variable, list[Operation]]], takes: Sequence[Operation], order: Tensor, tags: dict[str, Cell]
) -> tuple[list[tuple[Variable, Cell]], list[Operation]]:
    """Makes the ops that write or take begin by keeping the values of all variables `written`, and by setting the tag of their ps; adds
    tags where some are missing. Returns the variables, each with the cell of its value, and the ops that set the tags."""
    kept = [(v, cell(f"psclust/before/{v.op.name}", v.dtype.base_dtype, v.shape, v.device)) for v, _ in written.values()]
    begun = []
    for device in dict.fromkeys([*tags, *(variable.device for variable, _ in kept)]):
        with tf.device(device):
            keeps = [value.set(variable.read_value()) for variable, value in kept if variable.device == device]
            with tf.control_dependencies(keeps):
                begun.append(tags.setdefault(device, _tag(device)).set(tf.identity(order)[0]))
        writers = [writer for variable, ops in written.values() if variable.device == device for writer in ops]
        for operation in [*writers, *(each for each in takes if each.device == begun[-1].device)]:
            operation._add_control_input(begun[-1])
    return kept, begun


def _writers(within: Sequence[Operation]) -> dict[str, tuple[Variable, list[Operation]]]:
    """name -> (global variable, the ops in `within` that write to it), of all that have some."""
    names, found = {operation.name for operation in within}, {}
    for variable in tf.compat.v1.global_variables():
        writers = [use for use in variable.handle.consumers() if use.name in names and use.type != "ReadVariableOp"]
        if writers:
            found[variable.op.name] = (variable, writers)
    return found


def _announced(
    group: Sequence[Variable], order: _Order, written: Mapping[str, tuple[Variable, list[Operation]]], sent: Mapping[str, Variable]
) -> list[Operation]:
    """The ops that announce the update of a group of variables to the workers, with what these have to know of it."""
    after = [writer for variable in group for writer in written.get(variable.op.name, (variable, []))[1]]
    for variable in group:
        if variable.op.name in sent:
            with tf.device(variable.device), tf.control_dependencies(after):
                message = difference(variable.read_value(), sent[variable.op.name])
            after = [last_difference(sent[variable.op.name]).set(message)]
    return announce(group, order.rounds, after)


def _released(groups: Sequence[Sequence[Variable]], round_: Tensor, workers: int) -> Operation:
    """The op that stamps `round_` for all workers."""
    rounds = {group[0].device: at(group[0], tf.reshape, round_, [1]) for group in groups}
    return tf.group(*[stamp for group in groups for stamp in announce(group, [rounds[group[0].device]] * workers, [])])


def _mark(cell: Cell) -> Mark:
    return Mark(cell.is_set(), cell.read())


def _tag(device: str) -> Cell:
    return cell("psclust/tag", tf.int64, [], device)


def _restore(variable: Variable, value: Cell) -> Operation:
    with tf.device(variable.device):
        return variable.assign(value.read(), read_value=False)
