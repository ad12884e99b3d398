"""Tasks that die while a model is trained that psclust has partitioned by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trained import read_checkpoint, same

from psclust.placement.placement_settings import PlacementSettings

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

STEPS = 300
BY_DEFAULT = {"PSCLUST_PLACEMENT": PlacementSettings().render()}
ARGUMENTS = ["parts:counting", "--set", f"epochs={STEPS // 2}", "--save-seconds", "0.5"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one process makes of the same data."""
    import parts

    folder: Path = tmp_path_factory.mktemp("alone")
    assert parts.counting.with_params({"epochs": STEPS // 2}).train(folder) == STEPS
    return read_checkpoint(folder)


@pytest.mark.long
@pytest.mark.parametrize(
    ("replication", "victim"),
    [
        ("between-graph", "ps:1"),
        ("between-graph", "ps:0"),
        ("between-graph", "worker:1"),
        ("between-graph", "worker:0"),
        ("in-graph", "ps:1"),
        ("in-graph", "worker:1"),
    ],
)
def test_the_weights_are_those_of_one_process(
    processes: Callable[..., Any], alone: Any, replication: str, victim: str
) -> None:
    cluster = processes(replication, True, *ARGUMENTS, environment=BY_DEFAULT)
    client = "client:0" if replication == "in-graph" else "worker:1"
    cluster.reach(client, 40)
    cluster.replace(victim)
    trained = cluster.end_well()
    same(alone, trained)
    assert trained.values["dense"][-1, -1] == STEPS


@pytest.mark.long
@pytest.mark.parametrize("victim", ["ps:0", "worker:0", "worker:1"])
def test_asynchronous_workers_make_all_their_steps(
    processes: Callable[..., Any], victim: str
) -> None:
    cluster = processes("between-graph", False, *ARGUMENTS, environment=BY_DEFAULT)
    cluster.reach("worker:1", 40)
    cluster.replace(victim)
    assert cluster.end_well().positions == [STEPS, STEPS]
