"""The input of one replica: a dataset on its worker that can start at any batch and counts the
examples of each batch.

A padding batch has no examples: replicas that step together go on with padding after their own data
ends, until all have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.input.batches import (
    checked_dataset,
    count_examples,
    features_and_labels,
    plain,
)
from psclust.replication.input.upcoming import Upcoming, first_part, upcoming_parts
from psclust.replication.model import ModeKeys, Model, Shard
from psclust.replication.tf_types import Dataset, Graph, Operation, Tensor, Tensors

# Ops whose kernel calls Python; they run only in the process that built the graph.
_PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


@dataclass(frozen=True)
class ReplicaInput:
    """features, labels: one batch. examples: int64 scalar, how many examples it has; 0 for padding.
    initializer: starts the input after its first `skip` batches, an int64 placeholder; if
    `endless`, bool scalar, at the beginning.
    next: builds the same with the batch after this one.
    taken: int64 [batches, 2], the part of the data that each batch of a step is from, and 1, or 0
    for padding; upcoming: of each input, the parts that it reads next. Only where parts are handed
    out, which begin at any batch: `skip` has no effect."""

    features: Tensors
    labels: Tensors
    examples: Tensor
    initializer: Operation
    skip: Tensor
    endless: Tensor
    next: Callable[[], ReplicaInput]
    taken: Tensor | None = None
    upcoming: Sequence[Upcoming] = ()


def build_input(
    model: Model,
    shard: Shard,
    *,
    pad: bool,
    group: int = 1,
    divisor: int = 1,
    skip: Tensor | None = None,
) -> ReplicaInput:
    """Builds the input of one replica in the current device scope.

    With `pad`, a dataset that has ended is continued with padding for ever: copies of its first
    batch with `examples` 0. So replicas may end at different steps and every example counts. If
    `group` batches make one step, padding completes the last step. An endless dataset skips
    nothing: it would read for as long as the training before, to reach a position without meaning.
    If the model has `drop_uneven`, batches whose rows `divisor` replicas cannot split evenly are
    dropped; with one replica, batches smaller than the first. `skip`: a placeholder shared with
    other inputs.
    """
    if model.config.handed_out:
        return _handed_out(model, pad=pad, group=group)
    dataset = checked_dataset(model.dataset(ModeKeys.TRAIN, shard))
    if model.config.drop_uneven:
        dataset = _divisible(dataset, divisor) if divisor > 1 else _as_large_as_the_first(dataset)
    skip = new_skip() if skip is None else skip
    endless = tf.equal(dataset.cardinality(), tf.data.INFINITE_CARDINALITY)
    rest = dataset.skip(tf.where(endless, tf.constant(0, tf.int64), skip))
    iterator = _padded(rest, dataset, pad=pad, group=group)

    def following() -> ReplicaInput:
        batch, flag = iterator.get_next()
        features, labels = features_and_labels(batch)
        examples = count_examples(batch) * flag
        return ReplicaInput(
            features, labels, examples, iterator.initializer, skip, endless, following
        )

    return following()


def _handed_out(model: Model, *, pad: bool, group: int) -> ReplicaInput:
    """An input that reads the parts that its client claims, `pad` and `group` as above. Padding is
    made from the first batch of the first part."""
    parts, upcoming = upcoming_parts(model)
    iterator = _padded(parts, first_part(model), pad=pad, group=group)
    skip, endless = new_skip(), tf.constant(value=False)

    def following() -> ReplicaInput:
        (batch, part), flag = iterator.get_next()
        features, labels = features_and_labels(batch)
        examples, taken = count_examples(batch) * flag, tf.stack([part, flag])[None]
        start = iterator.initializer, skip, endless
        return ReplicaInput(features, labels, examples, *start, following, taken, [upcoming])

    return following()


def _padded(data: Dataset, first: Dataset, *, pad: bool, group: int) -> Any:
    """An iterator of the elements of `data`, each with 1, then of copies of the first element of
    `first`, each with 0, as `build_input` says."""
    flagged = tf.data.Dataset.zip((data, _for_ever(1)))
    if pad:
        padding = tf.data.Dataset.zip((first.take(1).cache().repeat(), _for_ever(0)))
        flagged = flagged.concatenate(padding)
    elif group > 1:
        flagged = _in_groups(flagged, first, group)
    return tf.compat.v1.data.make_initializable_iterator(flagged)


def new_skip() -> Tensor:
    """A placeholder for `ReplicaInput.skip`."""
    return tf.compat.v1.placeholder_with_default(tf.constant(0, tf.int64), [], name="skip")


def refuse_python_input(graph: Graph) -> None:
    """Raises UsageError if an input pipeline of `graph` calls Python, which a bare server cannot
    run."""
    for function in graph.as_graph_def().library.function:
        found = sorted({node.op for node in function.node_def} & _PYTHON_OPS)
        if found:
            raise UsageError(
                f"input_fn uses Python code ({found[0]}, from tf.py_function, "
                "tf.numpy_function or Dataset.from_generator), and in-graph workers are bare "
                "TensorFlow servers without Python. Use tf.data ops only, or Program(..., "
                "input_on_client=True) to run the input in the client, or between-graph replication"
            )


def _divisible(dataset: Dataset, divisor: int) -> Dataset:
    return dataset.filter(plain(lambda *batch: tf.equal(count_examples(batch) % divisor, 0)))


def _as_large_as_the_first(dataset: Dataset) -> Dataset:
    @plain
    def measured(first: Tensor, batch: Tensors) -> Tensors:
        examples = count_examples(batch)
        first = tf.where(first < 0, examples, first)
        return first, (batch, examples >= first)

    kept = dataset.scan(tf.constant(-1, tf.int64), measured)
    return kept.filter(plain(lambda batch, large: large)).map(plain(lambda batch, large: batch))


def _in_groups(flagged: Dataset, dataset: Dataset, group: int) -> Dataset:
    """`flagged`, padded at its end to a multiple of `group` batches."""
    padding = tf.data.Dataset.zip((dataset.take(1).repeat(group - 1), _for_ever(0)))
    windows = flagged.window(group)
    return windows.flat_map(
        plain(lambda *window: tf.data.Dataset.zip(window).concatenate(padding).take(group))
    )


def _for_ever(flag: int) -> Dataset:
    return tf.data.Dataset.from_tensors(tf.constant(flag, tf.int64)).repeat()
