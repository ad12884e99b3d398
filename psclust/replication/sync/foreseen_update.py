"""The update that waits for its round: the chief runs it before the round's messages are there, and
the first ps itself sees that they are what the chief foresaw, so that no chief is asked between the
last gradient and its update.

    asked      last message -> chief -> order -> update -> tokens
    foreseen   last message -> update -> tokens -> chief

Otherwise nothing that touches a variable runs, and the chief decides from the messages, which it
gets in either case. That is made by TensorFlow's dead tensors: the ops of the update have a control
input from one end of a switch, on each ps.

If the chief dies meanwhile, one ps may have made its part of the update, and another not, which
waited for the decision of the first. So each ps keeps two marks, of the last update that began to
write there and of the last that ended. If not all are equal, one is half made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.graph_walk import before, reached
from psclust.replication.sync.barrier_messages import MESSAGE_SHAPE, TOKEN_SHAPE, Message, position
from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.variables.cell import Cell, Mark, cell


@dataclass(frozen=True)
class DecodedUpdate:
    """An encoded update in a graph, int64 all. messages: how many to wait for before; examples,
    wanted: scalars; batches: [workers]; tokens: [4 * workers], see `encode_tokens`; foreseen: [5 *
    workers], of each the fields of its message, zeros without one."""

    messages: Tensor
    examples: Tensor
    wanted: Tensor
    batches: Tensor
    tokens: Tensor
    foreseen: Tensor


def decode_update(vector: Tensor, workers: int) -> DecodedUpdate:
    """The parts of an encoded update."""
    numbers, *parts = tf.split(
        vector, [3, workers, workers * TOKEN_SHAPE[0], workers * MESSAGE_SHAPE[0]]
    )
    return DecodedUpdate(*tf.unstack(numbers), *parts)


@dataclass(frozen=True)
class Decision:
    """update: float64 [2], 1 over the examples of the round, and a mark that no other update has;
    it and what depends on it exist only in a run that updates. batches: int64 [workers]. answer:
    int64 [1 + 5 * messages], 1 or 0, whether the run updates, then the messages that it waited for.
    unforeseen: int64 [messages, 5], these messages; exist only in a run that does not update."""

    update: Tensor
    batches: Tensor
    answer: Tensor
    unforeseen: Tensor

    def answer_after(self, made: Operation) -> Tensor:
        """The answer, and that the run updates only when `made`, which depends on the update, has
        been."""
        with tf.control_dependencies([made]):
            yes = tf.identity(self.answer)
        with tf.control_dependencies([tf.identity(self.unforeseen)]):
            no = tf.identity(self.answer)
        answer, _ = tf.raw_ops.Merge(inputs=[yes, no])
        return answer


def decide(
    order: DecodedUpdate,
    workers: int,
    receive: Callable[[Tensor], Tensor],
    admits: Callable[[Tensor], Tensor] | None = None,
) -> Decision:
    """What a run with this `order` does. receive(count): the next messages, int64 [count, 5].
    Without `order.messages` it awaits none and updates. admits(round): whether an update of that
    round, int64 scalar, may be made when its messages are there; None: it may."""
    messages = receive(tf.cast(order.messages, tf.int32))
    # One row a worker. Another message more or less changes the sum of a kind or of an incarnation.
    rows = tf.math.unsorted_segment_sum(messages, messages[:, position(Message, "worker")], workers)
    examples = rows[:, position(Message, "examples")]
    compared = tf.constant([field != "examples" for field in Message._fields])
    foreseen = tf.reshape(order.foreseen, tf.shape(rows))
    same = tf.reduce_all(tf.equal(rows, foreseen) | ~compared)
    if admits is not None:
        with tf.control_dependencies([messages]):
            same &= admits(tf.reduce_max(foreseen[:, position(Message, "round")]))
    asked = order.messages > 0
    total = tf.where(asked, tf.reduce_sum(examples), order.examples)
    goes = ~asked | (same & (total > 0))
    batches = tf.where(asked, tf.cast(examples > 0, tf.int64), order.batches)
    with tf.control_dependencies([messages]):
        mark = tf.timestamp()
    _, update = tf.raw_ops.Switch(
        data=tf.stack([1.0 / tf.cast(total, tf.float64), mark]), pred=goes
    )
    unforeseen, _ = tf.raw_ops.Switch(data=messages, pred=goes)
    answer = tf.concat([[tf.cast(goes, tf.int64)], tf.reshape(messages, [-1])], 0)
    return Decision(update, batches, answer, unforeseen)


class Gates:
    """A decision on each ps, and the marks there of the updates that it makes."""

    def __init__(self, decision: Decision, variables: Sequence[Variable]) -> None:
        self._decided = decision.update
        self._here: dict[str, Tensor] = {}
        self._factors: dict[str, Tensor] = {}
        self._built = len(tf.compat.v1.get_default_graph().get_operations())
        self._held: dict[str, list[Operation]] = {}
        self._marks: list[Cell] = []
        for variable in variables:
            self.factor(variable.device)

    def factor(self, device: str) -> Tensor:
        """What a sum of gradients there is multiplied by, float64 scalar."""
        if device not in self._factors:
            with tf.device(device):
                self._factors[device] = self._on(_cpu_of(device))[0]
        return self._factors[device]

    def hold(self, update: Sequence[Operation]) -> None:
        """Holds back what was built since and `update` needs of variables and accumulators, until
        its ps has marked that the update begins: an optimizer's decay of all its slots, say, waits
        for no gradient."""
        new = {
            operation.name
            for operation in tf.compat.v1.get_default_graph().get_operations()[self._built :]
        }
        for operation in reached(update, before).values():
            if operation.name in new and any(_is_state(value) for value in operation.inputs):
                self._held.setdefault(_cpu_of(operation.device), []).append(operation)
        for cpu, operations in self._held.items():
            begun = self._mark("begun", cpu, [])
            for operation in operations:
                operation._add_control_input(begun)

    def end(self, device: str, counted: Operation) -> list[Operation]:
        """The ops that mark that the update has ended: on each ps after what is held back there, on
        `device` when the step is `counted`."""
        return [
            self._mark("ended", cpu, operations)
            for cpu, operations in {**self._held, _cpu_of(device): [counted]}.items()
        ]

    @property
    def marks(self) -> list[Mark]:
        """All that are set; float64."""
        return [mark.mark() for mark in self._marks]

    def _mark(self, name: str, cpu: str, after: Sequence[Operation]) -> Operation:
        mark = cell(f"psclust/{name}", tf.float64, [], cpu)
        self._marks.append(mark)
        with tf.control_dependencies(after):
            return mark.set(self._on(cpu)[1])

    def _on(self, cpu: str) -> Tensor:
        if cpu not in self._here:
            with tf.device(cpu):
                self._here[cpu] = tf.identity(self._decided)
        return self._here[cpu]


def _cpu_of(device: str) -> str:
    return f"{device.partition('/device:')[0]}/device:CPU:0"


def _is_state(value: Tensor) -> bool:
    # Sparse accumulators have references to strings.
    return value.dtype == tf.resource or bool(value.dtype._is_ref_dtype)
