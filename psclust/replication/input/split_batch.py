"""One input for several towers that step together: each batch is cut by rows, a part for each tower.

The towers of a batch of n examples get n divided by their number, the first ones one more where that does not come out even. A tower
that gets none computes a copy of one row, which counts nothing: the mean of an empty batch is no number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.input.batches import count_examples, count_rows
from psclust.replication.input.replica_input import ReplicaInput

_Part = tuple[Any, Any, Any]


def split_input(whole: ReplicaInput, towers: int) -> list[ReplicaInput]:
    """The inputs of `towers` towers that share `whole`, in the current device scope. Raises UsageError where a batch has no rows."""
    batches = _Batches(whole, towers)
    parts = [batches.reader(tower) for tower in range(towers)]
    return [_with(replace(whole, next=following), following()) for following in parts]


def _with(data: ReplicaInput, part: _Part) -> ReplicaInput:
    features, labels, examples = part
    return replace(data, features=features, labels=labels, examples=examples)


@dataclass
class _Batches:
    """The batches of one step, each read when the first tower asks for it, and cut once."""

    whole: ReplicaInput
    towers: int
    _cut: list[list[_Part]] = field(default_factory=list)

    def reader(self, tower: int) -> Callable[[], _Part]:
        """A function that returns this tower's part of one batch after another."""
        number = 0

        def following() -> _Part:
            nonlocal number
            if number == len(self._cut):
                batch = self.whole.next() if number else (self.whole.features, self.whole.labels, self.whole.examples)
                self._cut.append(_parts(batch, self.towers))
            number += 1
            return self._cut[number - 1][tower]

        return following


def _parts(batch: _Part, towers: int) -> list[_Part]:
    features, labels, examples = batch
    rows = count_examples(features)
    checked = _checked((features, labels), rows)
    counts = tf.cast(examples > 0, tf.int64)
    found = []
    for tower in range(towers):
        begin, end = (_begin(rows, number, towers) for number in (tower, tower + 1))
        with tf.control_dependencies(checked):
            # An empty part begins where the batch ends: its copy is of the last row.
            first = tf.minimum(begin, rows - 1)
            last = tf.maximum(end, first + 1)
        cut = tf.nest.map_structure(lambda value, first=first, last=last: _rows(value, first, last), (features, labels))
        found.append((*cut, (end - begin) * counts))
    return found


def _begin(rows: Any, tower: int, towers: int) -> Any:
    """rows * tower / towers, rounded up."""
    return (rows * tower + towers - 1) // towers


def _rows(value: Any, first: Any, last: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, tf.SparseTensor):
        others = value.dense_shape[1:]
        cut = tf.sparse.slice(value, tf.concat([[first], tf.zeros_like(others)], 0), tf.concat([[last - first], others], 0))
        cut.set_shape(tf.TensorShape([None]).concatenate(value.shape[1:]))
        return cut
    return value[first:last]


def _checked(structure: Any, rows: Any) -> Sequence[Any]:
    """The checks, at run time, that every tensor of a batch has as many rows as the first."""
    found = []
    for value in (value for value in tf.nest.flatten(structure) if value is not None):
        if value.shape.rank == 0:
            raise UsageError(
                "split_batch cuts every tensor of a batch by rows, and input_fn yields one without (a scalar); repeat it for each row, or "
                "leave split_batch out"
            )
        text = "split_batch cuts every tensor of a batch by rows, and input_fn yields a batch whose tensors have different numbers of them"
        found.append(tf.debugging.assert_equal(count_rows(value), rows, message=text))
    return found
