"""Learning rates by the global step, against their formulas; and that the optimizer sees them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import toys
from ways import ALONE, Train, ways

from psclust import schedules
from psclust import schedules as s
from psclust.errors import UsageError

pytestmark = pytest.mark.tensorflow


def _rates(schedule: Callable[[Any], Any], steps: list[int]) -> list[float]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        rate = schedule(step)
        assert rate.dtype == tf.float32
        return [float(session.run(rate, {step: value})) for value in steps]


def test_each_schedule_is_its_formula() -> None:
    def near(values: list[float]) -> Any:
        return pytest.approx(values, rel=1e-5, abs=1e-7)

    assert _rates(lambda step: s.exponential(0.1, step, 10, 0.5), [0, 5, 20]) == near(
        [0.1, 0.1 * 0.5**0.5, 0.025]
    )
    assert _rates(
        lambda step: s.exponential(0.1, step, 10, 0.5, staircase=True), [9, 10, 29]
    ) == near([0.1, 0.05, 0.025])
    assert _rates(
        lambda step: s.polynomial(1.0, step, 100, end=0.1, power=2.0), [0, 50, 100, 500]
    ) == near([1.0, 0.325, 0.1, 0.1])
    assert _rates(
        lambda step: s.piecewise(step, [10, 20], [1.0, 0.5, 0.1]), [0, 10, 11, 20, 21]
    ) == near([1.0, 1.0, 0.5, 0.5, 0.1])
    assert _rates(lambda step: s.cosine(1.0, step, 100, end=0.2), [0, 25, 50, 100, 200]) == near(
        [1.0, 0.2 + 0.4 * (1 + math.cos(math.pi / 4)), 0.6, 0.2, 0.2]
    )
    assert _rates(
        lambda step: s.warm_up(s.cosine(1.0, step, 100), step, 10, start=0.5), [0, 5, 50]
    ) == near([0.5, 0.75 * 0.5 * (1 + math.cos(math.pi * 0.05)), 0.5])


def test_a_schedule_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="2 boundaries need 3 rates"):
        schedules.piecewise(0, [1, 2], [1.0, 2.0])
    with pytest.raises(UsageError, match="do not grow"):
        schedules.piecewise(0, [2, 1], [1.0, 2.0, 3.0])
    with pytest.raises(UsageError, match="positive number of steps"):
        schedules.cosine(1.0, 0, 0)


@ways(ALONE)
def test_every_replication_follows_the_schedule(
    train_here: Train, replication: str | None, sync: bool
) -> None:
    # Every update adds the rate of its step, shared out over the replicas: 1 up to step 9, then
    # 0.1.
    trained = train_here(toys.falling, replication, sync=sync)
    total = float(np.sum(trained.values["dense"]))
    assert trained.step == (100 if sync or replication is None else 200)
    expected = 10.0 + 0.1 * (trained.step - 10)
    # Asynchronous replicas may read the step just before it changes.
    assert total == pytest.approx(expected, abs=1e-3 if sync or replication is None else 2.0)
