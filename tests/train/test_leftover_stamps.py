"""Stamps that an earlier process of a worker has not taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import toys
import wide
from trained import same
from ways import Train

import psclust
from psclust.replication.sync.stamps import announce, stamps

pytestmark = pytest.mark.tensorflow


class Leaving(tf.compat.v1.train.SessionRunHook):
    """Puts stamps of older rounds into the queues of two workers before their first step."""

    def __init__(self, variable: Any) -> None:
        self._put = announce([variable], [tf.constant([7, 9], tf.int64)] * 2, [])

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._put)


def test_those_that_are_left_make_no_worker_read_a_variable_too_soon(train_here: Train) -> None:
    def model(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        spec = wide.trained.model_fn(features, labels, mode, params)
        last = next(v for v in tf.compat.v1.trainable_variables() if v.op.name == "layer3")
        return spec._replace(training_chief_hooks=[Leaving(last)])

    left = train_here(replace(wide.trained, model_fn=model), "between-graph", sync=True)
    same(train_here(wide.trained), left)


class Waiting(tf.compat.v1.train.SessionRunHook):
    """Notes how many stamps of a variable wait for the two workers when one of them begins."""

    def __init__(self, variable: Any, noted: list[list[int]]) -> None:
        self._sizes = [stamps([variable], worker).size() for worker in range(2)]
        self._noted = noted

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._noted.append(session.run(self._sizes))


def test_the_first_barrier_leaves_none(train_here: Train) -> None:
    noted: list[list[int]] = []

    def model(features: Any) -> psclust.EstimatorSpec:
        weights = toys.zeros("weights", [600, 600])
        loss = tf.reduce_mean(tf.matmul(features, weights))
        return psclust.EstimatorSpec("train", loss=loss, training_hooks=[Waiting(weights, noted)])

    program = toys.repeated(tf.reduce_mean, np.ones([4, 600], np.float32), 4)
    train_here(replace(program, model_fn=model), "between-graph", sync=True, here=True)
    assert noted == [[0, 0], [0, 0]]
