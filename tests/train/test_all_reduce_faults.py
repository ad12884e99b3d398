"""Workers that die while others wait for their moments, in the middle of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from trained import same

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


def test_who_stops_early_leaves_nobody_waiting(train_here: Callable[..., Any]) -> None:
    import toys

    import psclust

    # The loss is always the same: the second three steps are no better than the first, and the
    # chief stops.
    program = toys.levels(
        psclust.TrainConfig(moving_statistics="sync", stop_after=3), batches=500
    ).with_params({"rate": 0.0})
    assert train_here(program, "between-graph", sync=True).step == pytest.approx(6, abs=1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("lost", "devices"),
    [
        pytest.param("worker:1", 1, marks=pytest.mark.long),
        pytest.param("worker:0", 1, marks=pytest.mark.long),
        ("worker:1", 2),
    ],
)
def test_a_killed_worker_leaves_nobody_waiting_and_changes_no_weight(
    processes: Callable[..., Any], train_here: Callable[..., Any], lost: str, devices: int
) -> None:
    import nets

    cluster = processes(
        "between-graph",
        True,
        "nets:shared",
        "--log-seconds",
        "0.2",
        "--config",
        f"device_count={devices}",
    )
    cluster.reach("worker:1", 20)
    cluster.kill(lost)
    cluster.start(lost)
    assert cluster.end() == {"worker:0": 0, "worker:1": 0}
    # A hundred and fifty steps of twelve points: 1.1e-4.
    same(train_here(nets.shared), cluster.trained(), rtol=1e-3)
