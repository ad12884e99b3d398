"""Who still looks at a step when its training has failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import psclust
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.tensorflow


class _Fails(tf.compat.v1.train.SessionRunHook):
    """After the second step. before: the watches of other trainings."""

    def __init__(self, before: set[threading.Thread]) -> None:
        self.before = before
        self.steps = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.steps += 1
        if self.steps == 2:
            assert _watches() - self.before
            raise ValueError("of the hook")


def _watches() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "step watch"}


def test_nothing_watches_the_steps_of_a_session_that_has_failed(
    train_here: Callable[..., Any],
) -> None:
    before = _watches()

    def model(features: Any) -> psclust.EstimatorSpec:
        loss = tf.reduce_mean(features * tf.compat.v1.get_variable("weight", []))
        return psclust.EstimatorSpec("train", loss=loss, training_hooks=[_Fails(before)])

    def data() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.ones([4])).repeat(5)

    program = psclust.Program(model, data, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1))
    with pytest.raises(ValueError, match="of the hook"):
        train_here(program, "between-graph", sync=True, ps=1, workers=1, here=True)
    wait_until(lambda: _watches() <= before, 30, what="the end of the watch")
