"""The residual network: it learns, and what is evaluated are the averaged weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

pytestmark = [pytest.mark.tensorflow]


@pytest.mark.process
@pytest.mark.long
def test_two_workers_in_step_learn_the_digits(up_example: Callable[..., Any]) -> None:
    # Half as many updates as alone, of twice as many images each.
    ran = up_example("residual", "--set", "epochs=2", "--set", "filters=8")
    assert ran.metrics["accuracy"] >= 0.9
    names = tf.train.load_checkpoint(str(ran.model_dir)).get_variable_to_shape_map()
    assert "group2_block0/conv1/weights/ExponentialMovingAverage" in names
    # What batch normalization keeps is an average already.
    assert "group2_block0/norm1/moving_mean" in names
    assert "group2_block0/norm1/moving_mean/ExponentialMovingAverage" not in names
