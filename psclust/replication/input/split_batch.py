"""Splits the batches of one input by rows over towers that step together.

Every tower gets the same number of rows; if they do not divide evenly, the first towers get one
more. A tower without rows computes a copy of one row with 0 examples, because the mean of an empty
batch is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.input.batches import count_examples, count_rows
from psclust.replication.input.replica_input import ReplicaInput
from psclust.replication.tf_types import Operation, Tensor, Tensors


def split_input(whole: ReplicaInput, towers: int) -> list[ReplicaInput]:
    """The inputs of `towers` towers that split the batches of `whole`, in the current device scope.
    Raises UsageError for a scalar."""
    batches = _Batches(whole, towers)
    return [batches.part(tower, 0) for tower in range(towers)]


@dataclass
class _Batches:
    """The batches of one step, each read when the first tower asks for it and split once."""

    whole: ReplicaInput
    towers: int
    _split: list[list[ReplicaInput]] = field(default_factory=list)

    def part(self, tower: int, number: int) -> ReplicaInput:
        """The part that a tower has of batch `number`, from 0 on."""
        if number == len(self._split):
            self._split.append(_parts(self.whole.next() if number else self.whole, self.towers))
        return replace(self._split[number][tower], next=partial(self.part, tower, number + 1))


def _parts(batch: ReplicaInput, towers: int) -> list[ReplicaInput]:
    whole = batch.features, batch.labels
    rows = count_examples(batch.features)
    checked = _checked(whole, rows)
    counts = tf.cast(batch.examples > 0, tf.int64)
    found = []
    for tower in range(towers):
        begin, end = (_begin(rows, number, towers) for number in (tower, tower + 1))
        with tf.control_dependencies(checked):
            # An empty part begins at the end of the batch, so it copies the last row.
            first = tf.minimum(begin, rows - 1)
            last = tf.maximum(end, first + 1)
        features, labels = tf.nest.map_structure(
            lambda value, first=first, last=last: _rows(value, first, last), whole
        )
        examples = (end - begin) * counts
        found.append(replace(batch, features=features, labels=labels, examples=examples))
    return found


def _begin(rows: Tensor, tower: int, towers: int) -> Tensor:
    """rows * tower / towers, rounded up."""
    return (rows * tower + towers - 1) // towers


def _rows(value: Tensors, first: Tensor, last: Tensor) -> Tensors:
    if value is None:
        return None
    if isinstance(value, tf.SparseTensor):
        others = value.dense_shape[1:]
        part = tf.sparse.slice(
            value,
            tf.concat([[first], tf.zeros_like(others)], 0),
            tf.concat([[last - first], others], 0),
        )
        part.set_shape(tf.TensorShape([None]).concatenate(value.shape[1:]))
        return part
    return value[first:last]


def _checked(structure: Tensors, rows: Tensor) -> Sequence[Operation]:
    """Assertions that every tensor of a batch has as many rows as the first."""
    found = []
    for value in (value for value in tf.nest.flatten(structure) if value is not None):
        if value.shape.rank == 0:
            raise UsageError(
                "split_batch splits every tensor of a batch by rows, and input_fn yields a scalar; "
                "repeat it for each row, or leave split_batch out"
            )
        text = (
            "split_batch splits every tensor of a batch by rows, "
            "and input_fn yields tensors with different numbers of rows"
        )
        found.append(tf.debugging.assert_equal(count_rows(value), rows, message=text))
    return found
