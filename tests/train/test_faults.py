"""Tasks that die while a training runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from psclust.spec.cluster import Task
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

HALF_MADE = "the chief died in the middle of an update"
WELL = {"worker:0": 0, "worker:1": 0}


def _tally(batches: int) -> list[str]:
    return ["toys:tally", "--set", f"batches={batches}", "--log-seconds", "0.5"]


def test_a_killed_synchronous_worker_is_waited_for_and_comes_back(
    processes: Callable[..., Any],
) -> None:
    cluster = processes("between-graph", True, *_tally(300))
    cluster.reach("worker:1", 50)
    cluster.kill("worker:1")
    cluster.start("worker:1")
    assert cluster.end() == WELL
    trained = cluster.trained()
    # Not one gradient too many or too few, in spite of the one that was on its way.
    assert trained.step == 300
    assert trained.values["dense"].tolist() == [150.0, 150.0, 0.0, 0.0]
    assert trained.values["sparse"][:, 0].tolist() == [150.0, 150.0, 0.0, 0.0]


@pytest.mark.long
def test_a_worker_that_dies_when_another_has_ended_its_data_holds_only_itself_up(
    processes: Callable[..., Any],
) -> None:
    cluster = processes("between-graph", True, *_tally(100), "--set", "fewer=80", worker=3)
    wait_until(
        lambda: cluster.clients["worker:2"].exitcode == 0,
        what="the end of worker:2, which has the least data",
    )
    cluster.kill("worker:1")
    cluster.start("worker:1")
    assert cluster.end() == {**WELL, "worker:2": 0}
    trained = cluster.trained()
    assert trained.values["psclust/positions"].tolist() == [100, 100, 20]
    # 20 steps of all three, 80 of two.
    assert trained.values["dense"].tolist() == pytest.approx(
        [20 / 3 + 40, 20 / 3 + 40, 20 / 3, 0.0], rel=1e-4
    )


@pytest.mark.long
def test_a_killed_synchronous_chief_finds_the_variables_alive(
    processes: Callable[..., Any],
) -> None:
    cluster = processes("between-graph", True, *_tally(300))
    cluster.reach("worker:1", 50)
    cluster.kill("worker:0")
    reached = cluster.step("worker:1")
    cluster.start("worker:0")
    cluster.reach("worker:0", reached)
    assert cluster.end() == WELL
    # Only if it died in the middle of an update.
    assert ("restored" in cluster.log("worker:0")) is (HALF_MADE in cluster.log("worker:0"))
    assert cluster.trained().step == 300
    assert cluster.trained().values["dense"].tolist() == [150.0, 150.0, 0.0, 0.0]


def leave_half_made(cluster: Any) -> None:
    """What the first ps has of an update if the chief dies before the other one hears of it."""
    target, alive = (
        f"grpc://{cluster.cluster.address(Task('ps', 0))}",
        tf.compat.v1.ConfigProto(device_filters=["/job:ps"]),
    )
    with (
        tf.Graph().as_default(),
        tf.compat.v1.Session(target, config=alive) as session,
        tf.device("/job:ps/task:0"),
    ):
        dense, mark = (
            tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name)
            for name, dtype, shape in [
                ("dense", tf.float32, [4]),
                ("psclust/tag", tf.int64, []),
            ]
        )
        session.run(tf.raw_ops.AssignAddVariableOp(resource=dense, value=[1.0] * 4))
        one = tf.constant(1, tf.int64)
        session.run(tf.raw_ops.AssignAddVariableOp(resource=mark, value=one))


def train_on(cluster: Any) -> Any:
    """What is trained in the end by a new chief that finds half an update."""
    cluster.start("worker:0")
    assert cluster.end() == WELL
    assert HALF_MADE in cluster.log("worker:0")
    return cluster.trained()


def test_an_update_that_a_chief_has_left_half_made_is_made_again(
    processes: Callable[..., Any],
) -> None:
    cluster = processes("between-graph", True, *_tally(400), "--save-seconds", "0.1")
    cluster.reach("worker:1", 20)
    cluster.kill("worker:0")
    leave_half_made(cluster)
    trained = train_on(cluster)
    assert trained.step == 400
    assert (
        trained.values["dense"].tolist()
        == trained.values["sparse"][:, 0].tolist()
        == [200.0, 200.0, 0.0, 0.0]
    )


def test_a_worker_that_is_leaving_then_trains_again_what_was_lost(
    processes: Callable[..., Any], tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    data = ["toys:held", "--set", "batches=40", "--set", "fewer=20", "--set", f"until={go_on}"]
    cluster = processes("between-graph", True, *data, "--save-seconds", "1000")
    # Its data ends, and the chief, which waits for its own, does not hear of it.
    cluster.reach("worker:1", 20)
    leave_half_made(cluster)
    cluster.kill("worker:0")
    go_on.touch()
    trained = train_on(cluster)
    # 20 steps of both, from the checkpoint of step 0 on, then 20 of the chief.
    assert trained.step == 40
    assert (
        trained.values["dense"].tolist()
        == trained.values["sparse"][:, 0].tolist()
        == [30.0, 10.0, 0.0, 0.0]
    )


@pytest.mark.parametrize("ps", ["ps:0", pytest.param("ps:1", marks=pytest.mark.long)])
def test_a_ps_that_comes_back_empty_is_filled_from_the_last_checkpoint(
    processes: Callable[..., Any], ps: str
) -> None:
    cluster = processes("between-graph", True, *_tally(300), "--save-seconds", "0.2")
    cluster.reach("worker:1", 50)
    cluster.kill(ps)
    cluster.serve(ps)
    assert cluster.end() == WELL
    assert "restored" in cluster.log("worker:0")
    trained = cluster.trained()
    assert trained.step == 300
    assert (
        trained.values["dense"].tolist()
        == trained.values["sparse"][:, 0].tolist()
        == [150.0, 150.0, 0.0, 0.0]
    )


@pytest.mark.long
def test_asynchronous_workers_recover_from_a_lost_ps_as_well(processes: Callable[..., Any]) -> None:
    cluster = processes("between-graph", False, *_tally(400), "--save-seconds", "0.2")
    cluster.reach("worker:1", 50)
    cluster.kill("ps:1")
    cluster.serve("ps:1")
    assert cluster.end() == WELL
    assert "restored" in cluster.log("worker:0")
    assert cluster.trained().values["psclust/positions"].tolist() == [400, 400]


@pytest.mark.long
@pytest.mark.parametrize("sync", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_in_graph_worker_that_is_lost_costs_no_data(
    processes: Callable[..., Any], sync: bool
) -> None:
    cluster = processes("in-graph", sync, *_tally(3000))
    cluster.reach("client:0", 50)
    cluster.kill("worker:1")
    cluster.serve("worker:1")
    assert cluster.end() == {"client:0": 0}
    assert "lost a server" in cluster.log("client:0")
    trained = cluster.trained()
    assert trained.values["psclust/positions"].tolist() == [3000, 3000]
    each = 1500.0 if sync else 3000.0
    assert trained.values["dense"].tolist() == pytest.approx([each, each, 0.0, 0.0], abs=1)


@pytest.mark.long
def test_a_killed_in_graph_client_goes_on_where_it_was(processes: Callable[..., Any]) -> None:
    cluster = processes("in-graph", True, *_tally(300))
    cluster.reach("client:0", 50)
    cluster.kill("client:0")
    cluster.start("client:0")
    assert cluster.end() == {"client:0": 0}
    assert "restored" not in cluster.log("client:0")
    # The step that was under way may have been counted in one of the two counters only.
    assert cluster.trained().step == pytest.approx(300, abs=1)
