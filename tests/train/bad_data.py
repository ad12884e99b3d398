"""Programs whose data cannot be read, by the name of what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import toys

import psclust


def _records(path: str) -> tf.data.Dataset:
    return tf.data.TFRecordDataset([path]).map(lambda record: tf.strings.length(record)).batch(2)


def _generated() -> Iterator[int]:
    yield 1
    raise ValueError("bad line 17")


def _parsed() -> tf.data.Dataset:
    kinds = {"length": tf.io.FixedLenFeature([], tf.int64)}
    data = tf.data.Dataset.from_tensors(tf.constant(["no example"]))
    return data.map(lambda record: tf.io.parse_example(record, kinds)["length"])


INPUTS = {
    "no file": lambda: _records("/no/such/file"),
    "another kind of file": lambda: _records(__file__),
    "a generator that fails": lambda: tf.data.Dataset.from_generator(
        _generated, output_signature=tf.TensorSpec([], tf.int32)
    ).batch(1),
    "a record that is none": _parsed,
}


def _model(features: Any, mode: str) -> psclust.EstimatorSpec:
    weight = toys.zeros("weight", [])
    return psclust.EstimatorSpec(mode, loss=weight * tf.reduce_mean(tf.cast(features, tf.float32)))


def made(name: str) -> psclust.Program:
    return psclust.Program(
        _model, INPUTS[name], lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1)
    )


no_file = made("no file")
