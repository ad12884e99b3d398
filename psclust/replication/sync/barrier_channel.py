"""The queues and accumulators on the ps that the workers and the chief of a barrier share.

Gradients go into one accumulator a variable, on the variable's ps, which adds them up as they
arrive and holds one sum whatever the number of workers; with backup workers, they go into the
worker's own accumulators first (see `backup_ops`). Messages go through one queue on the first ps;
each worker has a token queue of its own there, so no worker takes two tokens. Queues and
accumulators have shared names, so the graphs of all workers use the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import DeviceLayout
from psclust.replication.gradients import GradientsAndVariables
from psclust.replication.passes.local_copies import LocalCopy
from psclust.replication.sync.accumulators import accumulator_for
from psclust.replication.sync.all_reduce import BetweenGraphAllReduce
from psclust.replication.sync.messages import MESSAGE_SHAPE, TOKEN_SHAPE, has_token, of_each
from psclust.replication.tf_types import Accumulator, Operation, Tensor


@dataclass(frozen=True)
class Channel:
    """accumulators: one for each pair of `Tower.contributions`, in its order. messages, tokens:
    queues. needed: how many gradients make a step; None: one of every worker. all_reduce: None if
    the replicas share no moments.
    Where steps are streamed, copies: of this worker; examples: the accumulator of the number of
    examples on each ps that has a variable, by its device."""

    accumulators: Sequence[Accumulator]
    messages: Any
    tokens: Sequence[Any]
    needed: int | None = None
    all_reduce: BetweenGraphAllReduce | None = None
    copies: Sequence[LocalCopy] = ()
    examples: Mapping[str, Accumulator] = field(default_factory=dict)

    def receive(self, count: Tensor) -> Tensor:
        """All waiting messages, int64 [messages, 5], when there are `count`, int32 scalar."""
        return self.messages.dequeue_many(tf.maximum(count, self.messages.size()))

    def send(self, tokens: Tensor) -> Operation:
        """The op that sends `tokens`, see `encode_tokens`. There is one for any choice of workers,
        because TensorFlow keeps a graph for every set of ops that a session is asked for."""
        own = of_each(tokens, tf.cast(has_token(tokens), tf.int32), len(self.tokens))
        sent = [queue.enqueue_many(rows) for queue, rows in zip(self.tokens, own, strict=True)]
        return tf.group(*sent)


def build_channel(
    contributions: GradientsAndVariables,
    layout: DeviceLayout,
    all_reduce: BetweenGraphAllReduce | None = None,
    needed: int | None = None,
    copies: Sequence[LocalCopy] = (),
) -> Channel:
    """Creates the shared queues and accumulators in the current graph. copies: of this worker, if
    each variable is updated, and comes back to them, while gradients of others leave."""
    accumulators = [accumulator_for(g, variable) for g, variable in contributions]
    devices = dict.fromkeys(variable.device for _, variable in contributions) if copies else ()
    examples = {device: _examples_on(device) for device in devices}
    workers = len(layout.workers)
    with tf.device(layout.parameters):
        messages = _queue(MESSAGE_SHAPE, "psclust/messages", "messages")
        tokens = [
            _queue(TOKEN_SHAPE, f"psclust/tokens_{each}", "tokens") for each in range(workers)
        ]
    return Channel(accumulators, messages, tokens, needed, all_reduce, copies, examples)


def _examples_on(device: str) -> Accumulator:
    with tf.device(device):
        # SUM, as in `accumulator_for`.
        return tf.compat.v1.ConditionalAccumulator(
            tf.float64, shape=[], shared_name="psclust/examples", reduction_type="SUM"
        )


def _queue(shape: Sequence[int], shared_name: str, name: str) -> Any:
    return tf.queue.FIFOQueue(-1, [tf.int64], [shape], shared_name=shared_name, name=name)
