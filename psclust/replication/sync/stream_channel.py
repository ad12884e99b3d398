"""What the workers and the chief of a streamed round share on each ps, and a worker's ops on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.passes.local_copies import LocalCopy, bring
from psclust.replication.sync.arrivals import Arrivals, arrivals_of, inlet_of
from psclust.replication.sync.stamps import stamp_of
from psclust.replication.tf_types import Accumulator, Operation, Tensor, Variable
from psclust.replication.wire.differences import last_difference


@dataclass(frozen=True)
class StreamChannel:
    """What a streamed round needs beside the channel. arrivals: one for each pair of
    `Tower.contributions`. examples: the accumulator of the number of examples on each ps that has a
    variable, by its device. copies: of this worker."""

    arrivals: Sequence[Arrivals]
    examples: Mapping[str, Accumulator]
    copies: Sequence[LocalCopy]


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
    """The ops that push this worker's gradients, and its number of examples to each ps. examples,
    rounds: by the device of the ps."""
    pushed = [
        push_examples(channel, device, examples[device], rounds[device])
        for device in channel.examples
    ]
    for arrivals, gradient in zip(channel.arrivals, gradients, strict=True):
        pushed.append(arrivals.push(inlet_of(worker), gradient, rounds[arrivals.variable.device]))
    return pushed


@dataclass(frozen=True)
class Brought:
    """operations: those that bring a worker's copies up to date, each when its variable has been
    updated. stamps: what they wait for on each ps, int64 scalars; next_stamps: for each of them the
    one after it, which can be taken alone."""

    operations: Sequence[Operation] = ()
    stamps: Sequence[Sequence[Tensor]] = ()
    next_stamps: Sequence[Sequence[Tensor]] = ()


def bring_updated(channel: StreamChannel, worker: int) -> Brought:
    taken: dict[str, list[Tensor]] = {}
    following: dict[str, list[Tensor]] = {}

    def arriving(group: Sequence[LocalCopy]) -> list[Tensor]:
        device, variables = group[0].variable.device, [copy.variable for copy in group]
        stamp = stamp_of(variables, worker)
        taken.setdefault(device, []).append(stamp)
        following.setdefault(device, []).append(stamp_of(variables, worker))
        with tf.device(device), tf.control_dependencies([stamp]):
            return [
                c.variable.read_value() if c.sent is None else last_difference(c.sent).read()
                for c in group
            ]

    operations = [
        operation for each in bring(channel.copies, arriving).values() for operation in each
    ]
    return Brought(operations, list(taken.values()), list(following.values()))


def push_examples(
    channel: StreamChannel, device: str, examples: Tensor, round_: Tensor
) -> Operation:
    with tf.device(device):
        return channel.examples[device].apply_grad(tf.cast(examples, tf.float64), local_step=round_)
