"""Batches of a user's input function: their form, and how many examples they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.tf_types import Dataset, Tensor, Tensors

_F = TypeVar("_F", bound=Callable[..., Any])


def plain(function: _F) -> _F:
    """For our own functions that datasets map: AutoGraph would take 0.1 s to convert each one."""
    unconverted: _F = tf.autograph.experimental.do_not_convert(function)
    return unconverted


def checked_dataset(dataset: Dataset) -> Dataset:
    """`dataset` itself. Raises UsageError if the input function returned something else."""
    if not isinstance(dataset, tf.data.Dataset):
        raise UsageError(
            f"input_fn returned a {type(dataset).__name__}; "
            "return a tf.data.Dataset of (features, labels) batches"
        )
    return dataset


def features_and_labels(batch: Tensors) -> tuple[Tensors, Tensors]:
    """(features, labels) of one dataset element; labels are None if the dataset yields features
    only."""
    if isinstance(batch, tuple):
        if len(batch) == 2:
            return batch
        if len(batch) == 1:
            return batch[0], None
        raise UsageError(
            f"input_fn yields tuples of {len(batch)} elements; yield (features, labels), "
            "each a tensor or a structure of tensors"
        )
    return batch, None


def count_examples(batch: Tensors) -> Tensor:
    """int64 scalar: the leading dimension of the batch's first tensor; 1 if that is a scalar."""
    return count_rows(_first(batch))


def known_examples(batch: Tensors) -> int | None:
    """The same, if the shape says it: every batch has as many then."""
    shape = _first(batch).shape
    return shape[0] if shape.rank else None


def count_rows(value: Tensors) -> Tensor:
    """int64 scalar: the leading dimension of a tensor, a SparseTensor or a RaggedTensor; 1 for a
    scalar."""
    if isinstance(value, tf.RaggedTensor):
        return value.nrows(tf.int64)
    if isinstance(value, tf.SparseTensor):
        return value.dense_shape[0]
    # Tensors that Python code returns have no static rank.
    return (
        tf.shape(value, tf.int64)[0]
        if value.shape.rank
        else tf.concat([tf.shape(value, tf.int64), [1]], 0)[0]
    )


def _first(batch: Tensors) -> Any:
    return next(value for value in tf.nest.flatten(batch) if value is not None)
