"""The input of one replica: its own dataset, on its own worker, which can start at any batch and says how many examples each batch has; and
the end of the data of several replicas that step together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.input.batches import checked_dataset, count_examples, features_and_labels
from psclust.replication.model import ModeKeys, Model, Shard

# Ops whose kernel is a Python callback; they run only in the process that built the graph.
_PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


@dataclass(frozen=True)
class ReplicaInput:
    """features, labels: one batch. examples: int64 scalar, how many examples the batch has; 0 for a batch that only fills up.
    initializer: starts the input after the first `skip` batches, an int64 placeholder; an `endless` one, bool scalar, at its beginning.
    next: builds the batch after it, as (features, labels, examples)."""

    features: Any
    labels: Any
    examples: Any
    initializer: Any
    skip: Any
    endless: Any
    next: Callable[[], tuple[Any, Any, Any]]


def build_input(model: Model, shard: Shard, *, pad: bool, group: int = 1, divisor: int = 1, skip: Any = None) -> ReplicaInput:
    """Builds the input of one replica in the current device scope.

    With `fill`, a dataset that has ended goes on for ever with copies of its first batch and `examples` 0, so that replicas in one graph
    may end at different steps while every example counts. Where `group` batches make one step, such copies complete the last one. An
    endless dataset skips nothing: reading up to where it was would take as long as the training before, for a place that means nothing.
    With the model's `drop_uneven`, batches of which `divisor` replicas cannot share the rows are left out; of one replica, those smaller
    than the first. `skip` is a placeholder that it shares with other inputs.
    """
    dataset = checked_dataset(model.dataset(ModeKeys.TRAIN, shard))
    if model.config.drop_uneven:
        dataset = _divisible(dataset, divisor) if divisor > 1 else _as_large_as_the_first(dataset)
    skip = new_skip() if skip is None else skip
    endless = tf.equal(dataset.cardinality(), tf.data.INFINITE_CARDINALITY)
    flagged = tf.data.Dataset.zip((dataset.skip(tf.where(endless, tf.constant(0, tf.int64), skip)), _for_ever(1)))
    if pad:
        flagged = flagged.concatenate(tf.data.Dataset.zip((dataset.take(1).cache().repeat(), _for_ever(0))))
    elif group > 1:
        flagged = _in_groups(flagged, dataset, group)
    iterator = tf.compat.v1.data.make_initializable_iterator(flagged)

    def following() -> tuple[Any, Any, Any]:
        batch, flag = iterator.get_next()
        return *features_and_labels(batch), count_examples(batch) * flag

    features, labels, examples = following()
    return ReplicaInput(features, labels, examples, iterator.initializer, skip, endless, following)


def new_skip() -> Any:
    """The placeholder of `ReplicaInput.skip`."""
    return tf.compat.v1.placeholder_with_default(tf.constant(0, tf.int64), [], name="skip")


def refuse_python_input(graph: Any) -> None:
    """Raises UsageError where an input pipeline of `graph` calls Python, which a bare worker server cannot run."""
    for function in graph.as_graph_def().library.function:
        found = sorted({node.op for node in function.node_def} & _PYTHON_OPS)
        if found:
            raise UsageError(
                f"input_fn uses Python code ({found[0]}, from tf.py_function, tf.numpy_function or Dataset.from_generator), and in-graph "
                "workers are bare TensorFlow servers without Python. Use tf.data ops only, or Program(..., input_on_client=True) to run "
                "the input in the client, or between-graph replication"
            )


def _divisible(dataset: Any, divisor: int) -> Any:
    return dataset.filter(lambda *batch: tf.equal(count_examples(batch) % divisor, 0))


def _as_large_as_the_first(dataset: Any) -> Any:
    def measured(first: Any, batch: Any) -> Any:
        examples = count_examples(batch)
        first = tf.where(first < 0, examples, first)
        return first, (batch, examples >= first)

    kept = dataset.scan(tf.constant(-1, tf.int64), measured).filter(lambda batch, large: large)
    return kept.map(lambda batch, large: batch)


def _in_groups(flagged: Any, dataset: Any, group: int) -> Any:
    """`flagged`, with copies of the first batch at the end where its length is no multiple of `group`."""
    filling = tf.data.Dataset.zip((dataset.take(1).repeat(group - 1), _for_ever(0)))
    windows = flagged.window(group)
    return windows.flat_map(lambda *window: tf.data.Dataset.zip(window).concatenate(filling).take(group))


def _for_ever(flag: int) -> Any:
    return tf.data.Dataset.from_tensors(tf.constant(flag, tf.int64)).repeat()
