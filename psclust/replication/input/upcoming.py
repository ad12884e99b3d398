"""The parts that an input reads next: rows of a variable beside it, which its client writes while
steps are made. The input reads one part after another, and ends where it finds no row: it waits for
nothing, so that nothing has to be cancelled when a session ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.input.batches import checked_dataset, plain
from psclust.replication.model import Model
from psclust.replication.parts.part_list import PartList
from psclust.replication.tf_types import Dataset, Operation, Tensor, Variable

MOST = 64
"""How many parts an input may have, the one that it reads and those after it."""

_NONE = -1
_CPU = "/device:CPU:0"


@dataclass(frozen=True)
class Upcoming:
    """life: int64 scalar, a placeholder, the number with which the input is started; no other start
    has it. rows: int64 [any, 4], a placeholder, of each the life, its number from 0 on, the part's
    index, and how many of its batches to skip. put: writes `rows`. ended: int64 scalar, the number
    of the row that the input of `life` did not find, and at which it ended; -1 if it has not."""

    life: Tensor
    rows: Tensor
    put: Operation
    ended: Tensor


def upcoming_parts(model: Model) -> tuple[Dataset, Upcoming]:
    """(elements (batch, its part's index), what is written for them), on the CPU of the current
    device: where a dataset is, there are the variables that it reads."""
    with tf.name_scope("upcoming"), tf.device(_CPU):
        life = tf.compat.v1.placeholder(tf.int64, [], name="life")
        rows = tf.compat.v1.placeholder(tf.int64, [None, 4], name="rows")
        written, ends = _table("rows", 4), _table("ends", 2)

        @plain
        def part(number: Tensor) -> Tensor:
            found = _row(written, number)
            none = tf.constant(_NONE, tf.int64)
            is_there = tf.reduce_all(tf.equal(found[:2], tf.stack([life, number])))
            end = tf.where(is_there, none, number)
            # Only the last one counts, at which the input ends.
            with tf.control_dependencies([_write(ends, life[None], tf.stack([life, end])[None])]):
                return tf.where(is_there, found[2:], tf.stack([none, 0]))

        entries = tf.data.Dataset.range(tf.int64.max).map(part)
        data = _batches(model, entries.take_while(plain(lambda entry: entry[0] >= 0)))
        last = _row(ends, life)
        ended = tf.where(tf.equal(last[0], life), last[1], tf.constant(_NONE, tf.int64))
        put = _write(written, rows[:, 1], rows)
        return data, Upcoming(life, rows, put, ended)


def _table(name: str, width: int) -> Variable:
    """Of this process or, in-graph, of a worker; each session begins it anew."""
    return tf.compat.v1.Variable(
        lambda: tf.fill([MOST, width], tf.constant(_NONE, tf.int64)),
        trainable=False,
        collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
        name=name,
    )


def _row(table: Variable, number: Tensor) -> Tensor:
    return tf.raw_ops.ResourceGather(resource=table.handle, indices=number % MOST, dtype=tf.int64)


def _write(table: Variable, numbers: Tensor, rows: Tensor) -> Operation:
    return tf.raw_ops.ResourceScatterUpdate(
        resource=table.handle, indices=numbers % MOST, updates=rows
    )


def first_part(model: Model) -> Dataset:
    """The same elements, of the first part alone."""
    return _batches(model, tf.data.Dataset.from_tensors(tf.constant([0, 0], tf.int64)))


def every_part(model: Model, parts: PartList, index: int, count: int) -> Dataset:
    """The batches of part `index` of every `count`, one after another, for all epochs."""
    entries = tf.data.Dataset.range(len(parts.parts))
    if parts.shuffled:
        entries = entries.shuffle(len(parts.parts), parts.seed)
    entries = entries.shard(count, index).map(plain(lambda part: tf.stack([part, 0])))
    return _batches(model, entries.repeat(parts.epochs)).map(plain(lambda batch, part: batch))


def _batches(model: Model, entries: Dataset) -> Dataset:
    assert model.parts is not None
    values = _values(model.parts)
    with model.part_input() as read:
        # AutoGraph converts this function, and so the user's, which may have an `if` of tensors.
        return entries.flat_map(
            lambda entry: _with_index(read(part=tf.gather(values, entry[0])), entry[0], entry[1])
        )


@plain
def _with_index(data: Dataset, part: Tensor, skipped: Tensor) -> Dataset:
    """Its batches without the first ones, each with the index of the part."""
    index = tf.data.Dataset.from_tensors(part).repeat()
    return tf.data.Dataset.zip((checked_dataset(data).skip(skipped), index))


def _values(parts: PartList) -> Any:
    """What input_fn gets of each part: string [parts], or int64 [parts, 2]."""
    return tf.constant(list(parts.parts), tf.string if parts.are_names else tf.int64)
