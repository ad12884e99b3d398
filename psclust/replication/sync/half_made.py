"""How a chief learns that an update was half made when the chief before it died.

One ps may have made its part of the update, and another not. Two kinds of mark tell:

    tag      on each ps, the last round whose update has begun to write there
    settled  on the first ps, the last round that was counted or rolled back: a ps with a greater
             tag may be half updated
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.passes.crossings import task_of
from psclust.replication.private_tensorflow import wait_for
from psclust.replication.tf_types import Operation, Session, Tensor, Variable
from psclust.replication.variables.cell import Cell, Mark, cell, read_marks


@dataclass(frozen=True)
class UpdateMarks:
    """tags: by the device of the ps."""

    tags: Mapping[str, Mark]
    settled: Mark

    def half_made(self, session: Session) -> list[str]:
        """The ps that may be half updated."""
        settled, *tags = read_marks(session, [self.settled, *self.tags.values()])
        return [device for device, tag in zip(self.tags, tags, strict=True) if tag > settled]


def settled_on(device: str) -> Cell:
    return cell("psclust/settled", tf.int64, [], device)


def begin_update(
    changes: Iterable[Operation],
    round_on: Callable[[str], Tensor],
    kept: Sequence[tuple[Variable, Cell]] = (),
) -> tuple[Mapping[str, Mark], list[Operation]]:
    """(the tag of each ps; the ops that set the tags to the round, int64 scalar, that `round_on`
    gives for a device). Makes each of `changes` (see `state_changes`) wait until on its ps the tag
    is set: also an optimizer's decay of its slots, which waits for no gradient. Before that, the
    values of the variables in `kept` are kept in their cells."""
    tasks: dict[str, list[Operation]] = {}
    for operation in changes:
        tasks.setdefault(task_of(operation), []).append(operation)
    tags, begun = {}, []
    for device, operations in tasks.items():
        tag, round_ = cell("psclust/tag", tf.int64, [], device), round_on(device)
        with tf.device(device), tf.control_dependencies([round_]):
            here = [(v, value) for v, value in kept if task_of(v.handle.op) == device]
            keeps = [value.set(variable.read_value()) for variable, value in here]
            with tf.control_dependencies(keeps):
                begun.append(tag.set(tf.identity(round_)))
        for operation in operations:
            wait_for(operation, begun[-1])
        tags[device] = tag.mark()
    return tags, begun
