"""A program whose data is handed out in parts; the variable `counts` has how often each example was
used: its gradients count by their sign alone, whatever the size of the step's batch."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import tensorflow as tf

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
    data = tf.data.Dataset.range(part[0], part[1]).batch(BATCH)
    if not params["pause"]:
        return data

    def slow(numbers: Any) -> Any:
        time.sleep(params["pause"])
        return numbers

    def slowed(numbers: Any) -> Any:
        found = tf.numpy_function(slow, [numbers], tf.int64)
        found.set_shape([None])
        return found

    return data.map(slowed)


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
    params={"examples": 200, "pause": 0.0},
    seed=3,
)


def counted(values: Any) -> set[int]:
    """How often examples were used."""
    return {round(value) for value in np.asarray(values["counts"]).tolist()}
