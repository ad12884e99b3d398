"""Splits the batches of one input by rows over towers that step together.

Every tower gets the same number of rows; if they do not divide evenly, the first towers get one
more. A tower without rows computes a copy of one row with 0 examples, because the mean of an empty
batch is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.input.batches import count_examples, count_rows
from psclust.replication.input.replica_input import Batch, ReplicaInput
from psclust.replication.tf_types import Operation, Tensor, Tensors


def split_input(whole: ReplicaInput, towers: int) -> list[ReplicaInput]:
    """The inputs of `towers` towers that split the batches of `whole`, in the current device scope.
    Raises UsageError for a scalar."""
    batches = _Batches(whole, towers)
    parts = [batches.reader(tower) for tower in range(towers)]
    return [_with(replace(whole, next=following), following()) for following in parts]


def _with(data: ReplicaInput, part: Batch) -> ReplicaInput:
    features, labels, examples, _ = part
    return replace(data, features=features, labels=labels, examples=examples)


@dataclass
class _Batches:
    """The batches of one step, each read when the first tower asks for it and split once."""

    whole: ReplicaInput
    towers: int
    _split: list[list[Batch]] = field(default_factory=list)

    def reader(self, tower: int) -> Callable[[], Batch]:
        """A function that returns this tower's part of the next batch with each call."""
        number = 0

        def following() -> Batch:
            nonlocal number
            if number == len(self._split):
                batch = (
                    self.whole.next()
                    if number
                    else (self.whole.features, self.whole.labels, self.whole.examples, None)
                )
                self._split.append(_parts(batch, self.towers))
            number += 1
            return self._split[number - 1][tower]

        return following


def _parts(batch: Batch, towers: int) -> list[Batch]:
    features, labels, examples, _ = batch
    rows = count_examples(features)
    checked = _checked((features, labels), rows)
    counts = tf.cast(examples > 0, tf.int64)
    found = []
    for tower in range(towers):
        begin, end = (_begin(rows, number, towers) for number in (tower, tower + 1))
        with tf.control_dependencies(checked):
            # An empty part begins at the end of the batch, so it copies the last row.
            first = tf.minimum(begin, rows - 1)
            last = tf.maximum(end, first + 1)
        part = tf.nest.map_structure(
            lambda value, first=first, last=last: _rows(value, first, last), (features, labels)
        )
        found.append((*part, (end - begin) * counts, None))
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
