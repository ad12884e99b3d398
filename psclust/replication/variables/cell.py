"""Variables that belong to one training alone: they are in no collection, so nothing initializes,
saves or restores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Operation, Session, Tensor


@dataclass(frozen=True)
class Mark:
    """The number in a cell. value: a scalar, fails unless `known`, bool scalar."""

    known: Tensor
    value: Tensor


@dataclass(frozen=True)
class Cell:
    """A resource variable without an initial value. Graphs share the one of the same name."""

    handle: Tensor
    dtype: Any
    device: str

    def set(self, value: Tensor) -> Operation:
        """The op that sets the value, which shares the memory of `value` until one of them is
        written."""
        with tf.device(self.device):
            return tf.raw_ops.AssignVariableOp(resource=self.handle, value=value)

    def read(self) -> Tensor:
        with tf.device(self.device):
            return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype)

    def is_set(self) -> Tensor:
        with tf.device(self.device):
            return tf.raw_ops.VarIsInitializedOp(resource=self.handle)

    def mark(self) -> Mark:
        return Mark(self.is_set(), self.read())


def cell(name: str, dtype: Any, shape: Any, device: str) -> Cell:
    with tf.device(device):
        return Cell(
            tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name, name=name),
            dtype,
            device,
        )


def read_marks(session: Session, marks: Sequence[Mark]) -> list[int]:
    """The value of each mark; 0 for one that was never set."""
    known = session.run([mark.known for mark in marks])
    found = iter(session.run([m.value for m, is_set in zip(marks, known, strict=True) if is_set]))
    return [int(next(found)) if is_set else 0 for is_set in known]
