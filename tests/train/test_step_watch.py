"""Who still looks at a step when its training has failed."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import toys
from ways import Train

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
    train_here: Train,
) -> None:
    before = _watches()

    def loss(features: Any) -> Any:
        return tf.reduce_mean(features * tf.compat.v1.get_variable("weight", []))

    program = toys.repeated(loss, np.ones([4], np.float32), 5, hooks=[_Fails(before)])
    with pytest.raises(ValueError, match="of the hook"):
        train_here(program, "between-graph", sync=True, ps=1, workers=1, here=True)
    wait_until(lambda: _watches() <= before, 30, what="the end of the watch")
