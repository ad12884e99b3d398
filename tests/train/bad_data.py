"""Programs whose data cannot be read, by the name of what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import mapped
import tensorflow as tf


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


no_file = mapped.program(INPUTS["no file"], parts=False)
