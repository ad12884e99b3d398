"""Workers that die while others wait for their moments, in the middle of the model."""

from __future__ import annotations

import nets
import pytest
import toys
from trained import same
from ways import Start, Train

import psclust

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


def test_who_stops_early_leaves_nobody_waiting(train_here: Train) -> None:
    # The loss is always the same: the second three steps are no better than the first, and the
    # chief stops.
    program = toys.levels(
        psclust.TrainConfig(moving_statistics="sync", stop_after=3), batches=500
    ).with_params({"rate": 0.0})
    assert train_here(program, "between-graph", sync=True).step == pytest.approx(6, abs=1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("lost", "devices"),
    [("worker:1", 1), ("worker:0", 1), ("worker:1", 2)],
)
def test_a_killed_worker_leaves_nobody_waiting_and_changes_no_weight(
    processes: Start, train_here: Train, lost: str, devices: int
) -> None:
    words = ["nets:shared", "--config", f"device_count={devices}"]
    cluster = processes("between-graph", True, *words, log_seconds=0.2)
    cluster.reach("worker:1", 20)
    cluster.replace(lost)
    # A hundred and fifty steps of twelve points: 1.1e-4.
    same(train_here(nets.shared), cluster.end_well(), rtol=1e-3)
