"""The residual network: it learns, and what is evaluated are the averaged weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.tensorflow]


@pytest.mark.long
def test_it_learns_the_digits(train_example: Callable[..., Any], tmp_path: Path) -> None:
    import tensorflow as tf

    assert train_example("residual", epochs=2, filters=8, decay_steps=60)["accuracy"] >= 0.95
    names = tf.train.load_checkpoint(str(tmp_path / "model")).get_variable_to_shape_map()
    assert "group2_block0/conv1/weights/ExponentialMovingAverage" in names
    # What batch normalization keeps is an average already.
    assert "group2_block0/norm1/moving_mean" in names
    assert "group2_block0/norm1/moving_mean/ExponentialMovingAverage" not in names


@pytest.mark.process
@pytest.mark.long
def test_two_workers_in_step_learn_them(up_example: Callable[..., Any]) -> None:
    # Half as many updates as alone, of twice as many images each.
    assert (
        up_example("residual", "--set", "epochs=2", "--set", "filters=8").metrics["accuracy"] >= 0.9
    )
