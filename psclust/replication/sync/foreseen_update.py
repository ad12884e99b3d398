"""The update that waits for its round: the chief runs it before the round's messages are there, and the first ps itself sees that they are
what the chief foresaw, so that no chief is asked between the last gradient and its update.

    asked      last message -> chief -> order -> update -> tokens            foreseen      last message -> update -> tokens -> chief

Otherwise nothing that touches a variable runs, and the chief decides from the messages, which it gets in either case. That is made by
TensorFlow's dead tensors: the ops of the update have a control input from one end of a switch, on each ps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import tensorflow as tf

from psclust.replication.graph_walk import before, reached
from psclust.replication.sync.barrier_messages import DecodedUpdate, Message, position
from psclust.replication.tf_types import Operation, Tensor, Variable


@dataclass(frozen=True)
class Decision:
    """factor: float64 scalar, 1 over the examples of the round; it and what depends on it exist only in a run that updates. batches: int64
    [workers]. answer: int64 [1 + 5 * messages], 1 or 0, whether the run updates, then the messages that it waited for."""

    factor: Tensor
    batches: Tensor
    answer: Tensor


def decide(order: DecodedUpdate, workers: int, receive: Callable[[Tensor], Tensor]) -> Decision:
    """What a run with this `order` does. receive(count): the next messages, int64 [count, 5]. Without
    `order.messages` it awaits none and updates."""
    messages = receive(tf.cast(order.messages, tf.int32))
    # One row a worker. Another message more or less changes the sum of a kind or of an incarnation.
    rows = tf.math.unsorted_segment_sum(messages, messages[:, position(Message, "worker")], workers)
    examples = rows[:, position(Message, "examples")]
    compared = tf.constant([field.name != "examples" for field in fields(Message)])
    same = tf.reduce_all(tf.equal(rows, tf.reshape(order.foreseen, tf.shape(rows))) | ~compared)
    asked = order.messages > 0
    total = tf.where(asked, tf.reduce_sum(examples), order.examples)
    goes = ~asked | (same & (total > 0))
    batches = tf.where(asked, tf.cast(examples > 0, tf.int64), order.batches)
    _, factor = tf.raw_ops.Switch(data=1.0 / tf.cast(total, tf.float64), pred=goes)
    answer = tf.concat([[tf.cast(goes, tf.int64)], tf.reshape(messages, [-1])], 0)
    return Decision(factor, batches, answer)


class Gates:
    """The factor of a decision on each ps."""

    def __init__(self, decision: Decision, variables: Sequence[Variable]) -> None:
        self._factor = decision.factor
        self._here: dict[str, Tensor] = {}
        self._built = len(tf.compat.v1.get_default_graph().get_operations())
        for variable in variables:
            self.on(variable.device)

    def on(self, device: str) -> Tensor:
        if device not in self._here:
            with tf.device(device):
                self._here[device] = tf.identity(self._factor)
        return self._here[device]

    def hold(self, update: Sequence[Operation]) -> None:
        """Holds back what was built since and `update` needs of variables and accumulators: an optimizer's decay of all its slots, say,
        waits for no gradient."""
        new = {operation.name for operation in tf.compat.v1.get_default_graph().get_operations()[self._built :]}
        for operation in reached(update, before).values():
            if operation.name in new and any(_is_state(value) for value in operation.inputs):
                operation._add_control_input(self.on(operation.device).op)


def _is_state(value: Tensor) -> bool:
    # Sparse accumulators have references to strings.
    return value.dtype == tf.resource or bool(value.dtype._is_ref_dtype)
