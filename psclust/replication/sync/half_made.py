"""How a chief learns that an update was half made when the chief before it died.

One ps may have made its part of the update, and another not. So each ps keeps two marks: the round
of the last update that began to write there, and of the last that ended. If not all marks are
equal, an update is half made, and the variables have to be restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf

from psclust.replication.by_device import moved
from psclust.replication.device_layout import host_of
from psclust.replication.private_tensorflow import wait_for
from psclust.replication.state_changes import state_changes
from psclust.replication.tf_types import Operation, Session, Tensor
from psclust.replication.variables.cell import Cell, Mark, cell, read_marks


class UpdateMarks:
    """The marks of the update that ends the round `round_`, int64 scalar."""

    def __init__(self, round_: Tensor) -> None:
        self._round = round_
        self._held: dict[str, list[Operation]] = {}
        self._cells: list[Cell] = []

    def begin(self, update: Sequence[Operation], apart_from: Iterable[Operation]) -> None:
        """Makes all ops of `update` that change state (see `state_changes`) wait until their ps is
        marked: also an optimizer's decay of its slots, which waits for no gradient."""
        for operation in state_changes(update, apart_from):
            self._held.setdefault(host_of(operation.device), []).append(operation)
        for host, operations in self._held.items():
            begun = self._mark("begun", host, [])
            for operation in operations:
                wait_for(operation, begun)

    def end(self, device: str, counted: Tensor) -> list[Operation]:
        """The ops that mark each ps when the update has ended there: on `device` after `counted`,
        on the others after the ops that `begin` holds back."""
        last = {**self._held, host_of(device): [counted]}
        return [self._mark("ended", host, operations) for host, operations in last.items()]

    @property
    def all(self) -> list[Mark]:
        """int64."""
        return [each.mark() for each in self._cells]

    def _mark(self, name: str, host: str, after: Sequence[Operation]) -> Operation:
        made = cell(f"psclust/{name}", tf.int64, [], host)
        self._cells.append(made)
        with tf.control_dependencies(after):
            return made.set(moved(self._round, host))


def is_half_made(session: Session, marks: Sequence[Mark]) -> bool:
    """Whether the last update has not been made on all ps."""
    return len(set(read_marks(session, marks))) > 1
