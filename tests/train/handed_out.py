"""A program whose data is handed out in parts; the variable `counts` has how often each example was
used: its gradients count by their sign alone, whatever the size of the step's batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

import psclust

SIZE, BATCH = 10, 5
"""Examples of a part, and of a batch."""


class Sign(tf.compat.v1.train.GradientDescentOptimizer):
    """Adds or subtracts 1."""

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return super()._resource_apply_dense(tf.sign(grad), handle)


def _parts(params: dict[str, Any]) -> list[tuple[int, int]]:
    return psclust.ranges(params["examples"], SIZE)


def _input(part: Any, params: dict[str, Any]) -> tf.data.Dataset:
    """Batches that take `pause` seconds each, until there is a file `hurry`. By ops that a server
    without Python has."""
    data = tf.data.Dataset.range(part[0], part[1]).batch(BATCH)
    if not params["pause"]:
        return data

    def slowed(numbers: Any) -> tf.data.Dataset:
        # Of each batch anew: what is constant is looked at once.
        nothing = tf.strings.substr(tf.strings.as_string(numbers[0]), 0, 0)
        waits = tf.equal(tf.size(tf.io.matching_files(params["hurry"] + nothing)), 0)
        pause = tf.where(waits, tf.constant(int(params["pause"] * 1e6), tf.int64), 0)
        return tf.data.Dataset.from_tensors(numbers).apply(testing.sleep(pause)).take(1)

    return data.flat_map(slowed)


def _model(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> psclust.EstimatorSpec:
    counts = tf.compat.v1.get_variable(
        "counts", [params["examples"]], initializer=tf.compat.v1.zeros_initializer()
    )
    used = tf.linalg.matvec(tf.one_hot(features, params["examples"]), counts)
    return psclust.EstimatorSpec(mode, loss=-tf.reduce_mean(used))


program = psclust.Program(
    _model,
    _input,
    lambda: Sign(1.0),
    data_parts=_parts,
    params={"examples": 200, "pause": 0.0, "hurry": "/hurry"},
    seed=3,
)


def counted(values: Any) -> set[int]:
    """How often examples were used."""
    return {round(value) for value in np.asarray(values["counts"]).tolist()}
