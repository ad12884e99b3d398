"""The token that a worker foresees: it begins its next step while the one before is under way, and
the step itself sees, on the worker, that the token has come.

    known      token --> client --> step
    foreseen   token --> step
               client: begins the one after

Until then a step does nothing that another would notice: what it does to the state of its worker
waits for the token, and on a ps for the report of the worker, which leaves later. So one that has
been begun in vain fails, and that is all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.graph_walk import after, before, reached, uses_state
from psclust.replication.sync.barrier_messages import Kind, Token, position
from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.wire.crossings import task_of


@dataclass(frozen=True)
class ForeseenToken:
    """Of the steps of a worker. is_foreseen: bool placeholder, whether a step is begun before its
    token is there; False by default. came: the op that fails if it has not come to such a step.
    round: of the step, int64 scalar. granted: of the next step, once its token has come; 0 if that
    one needs something else before."""

    is_foreseen: Tensor
    came: Operation
    round: Tensor
    granted: Variable

    @classmethod
    def of(cls, round_: Tensor, worker: str) -> ForeseenToken:
        """Of a step of `round_`, int64 scalar, on the device `worker`."""
        with tf.device(worker):
            foreseen = tf.compat.v1.placeholder_with_default(
                tf.constant(False), [], name="foreseen"
            )
            granted = tf.compat.v1.Variable(
                tf.constant(0, tf.int64),
                trainable=False,
                collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
                name="psclust/granted",
                use_resource=True,
            )
            as_granted = tf.equal(tf.where(foreseen, granted.read_value(), round_), round_)
            came = tf.raw_ops.Assert(
                condition=as_granted, data=["the token that was foreseen has not come"]
            )
        return cls(foreseen, came, round_, granted)

    def kept(self, token: Tensor, incarnation: Tensor, stamps: Iterable[Tensor]) -> Tensor:
        """An encoded `Token`, once its round is kept for the next step. stamps: that the step has
        taken; see `readiness`."""
        with tf.device(self.came.device):
            kind, whose, round_ = (
                token[position(Token, name)] for name in ("kind", "incarnation", "round")
            )
            return self._kept(
                token, tf.equal(kind, Kind.GO) & tf.equal(whose, incarnation), round_, stamps
            )

    def kept_answer(self, answer: Tensor, stamps: Iterable[Tensor]) -> Tensor:
        """The same of a `Decision.answer`, for the next round if the update has been made."""
        with tf.device(self.came.device):
            return self._kept(answer, answer[0] > 0, self.round + 1, stamps)

    def _kept(
        self, value: Tensor, goes: Tensor, round_: Tensor, stamps: Iterable[Tensor]
    ) -> Tensor:
        # After an older stamp, the copies of the variables are not up to date.
        for each in stamps:
            goes &= tf.reduce_all(each >= self.round)
        with tf.control_dependencies([self.came]):
            kept = self.granted.assign(
                tf.where(goes, round_, tf.zeros_like(round_)), read_value=False
            )
        with tf.control_dependencies([kept]):
            return tf.identity(value)

    def hold_back(self, steps: Iterable[Operation], arrived: Callable[[str], Operation]) -> bool:
        """Has what `steps` do to state wait: on the worker until the token has come, in another
        task for the op by which the report of the worker has `arrived` there. False: not all of it
        can, so no step may be begun before its token is there."""
        own = reached([self.came], before)
        used = [
            operation
            for operation in reached(steps, before).values()
            if uses_state(operation) and operation.name not in own
        ]
        worker = task_of(self.came)
        if not _hold(
            [each for each in _not_after(self.came, used) if task_of(each) == worker], self.came
        ):
            return False
        # A report leaves when there is a batch, which waits for the token now: what waits for the
        # report does, too.
        elsewhere: dict[str, list[Operation]] = {}
        for operation in _not_after(self.came, used):
            elsewhere.setdefault(task_of(operation), []).append(operation)
        return all(_hold(operations, arrived(task)) for task, operations in elsewhere.items())

    def is_awaited(self, steps: Iterable[Operation]) -> bool:
        """Whether what these `steps` of the chief do to state waits as it is. Variables may be read
        before: if the token comes, they have the values that the step before has left."""
        used = _not_after(self.came, reached(steps, before).values())
        own = reached([self.came], before)
        return not any(
            uses_state(each) and each.type != "ReadVariableOp" and each.name not in own
            for each in used
        )


def _hold(operations: Sequence[Operation], until: Operation) -> bool:
    """Has `operations` wait. False: one cannot, because `until` waits for it, or because it is in a
    loop or a branch."""
    earlier = reached([until], before)
    if any(
        each.name in earlier or each._get_control_flow_context() is not None for each in operations
    ):
        return False
    for each in operations:
        each._add_control_input(until)
    return True


def _not_after(operation: Operation, others: Iterable[Operation]) -> list[Operation]:
    later = reached([operation], after)
    return [each for each in others if each.name not in later]
