"""Programs whose mistake is in a function that a dataset maps, which AutoGraph converts: the input
functions take a part of the data, or none."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import toys

import psclust


def _numbers(part: Any = (0, 8)) -> tf.data.Dataset:
    return tf.data.Dataset.range(part[0], part[1]).batch(2)


def _matrices(numbers: Any) -> Any:
    return tf.matmul(tf.zeros([2, 2]), tf.zeros([3, 3]))


def _refuses(numbers: Any) -> Any:
    raise ValueError("not these numbers")


def fails(part: Any = (0, 8)) -> tf.data.Dataset:
    return _numbers(part).map(_matrices)


def fails_in_place(part: Any = (0, 8)) -> tf.data.Dataset:
    return _numbers(part).map(lambda numbers: tf.zeros([2, 2]) @ tf.zeros([3, 3]))


def refuses(part: Any = (0, 8)) -> tf.data.Dataset:
    return _numbers(part).map(_refuses)


def no_dataset(part: Any = (0, 8)) -> Any:
    return [part]


def branches(part: Any = (0, 8)) -> tf.data.Dataset:
    """Without a mistake: an `if` of tensors in the function itself, and in one that it maps."""
    most = part[1]
    if most > 4:
        most = most - 1

    def halved(numbers: Any) -> Any:
        if tf.reduce_sum(numbers) > 5:
            numbers = numbers // 2
        return numbers

    return _numbers((part[0], most)).map(halved)


def compares(part: Any = (0, 8)) -> tf.data.Dataset:
    return _numbers(part).map(lambda numbers: numbers + int(numbers == 1))


def _model(features: Any, mode: str) -> psclust.EstimatorSpec:
    weight = toys.zeros("weight", [])
    return psclust.EstimatorSpec(mode, loss=weight * tf.reduce_mean(tf.cast(features, tf.float32)))


def program(input_fn: Any, *, parts: bool) -> psclust.Program:
    return psclust.Program(
        _model,
        input_fn if parts else lambda: input_fn(),
        lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
        data_parts=psclust.ranges(16, 8) if parts else None,
    )
