"""Tasks that die while a training runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from ways import Start

from beds.tiers import longer
from psclust.spec.cluster import Task
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

HALF_MADE = "the chief died in the middle of an update"


@pytest.fixture
def tally(processes: Start) -> Start:
    """Starts the toy between-graph and synchronous, or another way."""

    def start(
        batches: int, replication: str = "between-graph", sync: bool = True, **more: Any
    ) -> Any:
        program = more.pop("program", "toys:tally")
        return processes(replication, sync, program, batches=batches, log_seconds=0.5, **more)

    return start


def test_a_killed_synchronous_worker_is_waited_for_and_comes_back(
    tally: Start,
) -> None:
    cluster = tally(300)
    cluster.reach("worker:1", 50)
    cluster.replace("worker:1")
    trained = cluster.end_well()
    # Not one gradient too many or too few, in spite of the one that was on its way.
    assert (trained.step, trained.tally) == (300, [150.0, 150.0, 0.0, 0.0])


@pytest.mark.long
def test_a_worker_that_dies_when_another_has_ended_its_data_holds_only_itself_up(
    tally: Start,
) -> None:
    cluster = tally(100, fewer=80, worker=3)
    wait_until(
        lambda: cluster.clients["worker:2"].exitcode == 0,
        what="the end of worker:2, which has the least data",
    )
    cluster.replace("worker:1")
    trained = cluster.end_well()
    assert trained.positions == [100, 100, 20]
    # 20 steps of all three, 80 of two.
    assert trained.tally == pytest.approx([20 / 3 + 40, 20 / 3 + 40, 20 / 3, 0.0], rel=1e-4)


@pytest.mark.long
def test_a_killed_synchronous_chief_finds_the_variables_alive(tally: Start) -> None:
    cluster = tally(300)
    cluster.reach("worker:1", 50)
    cluster.kill("worker:0")
    reached = cluster.step("worker:1")
    cluster.start("worker:0")
    cluster.reach("worker:0", reached)
    trained = cluster.end_well()
    # Only if it died in the middle of an update.
    assert ("restored" in cluster.log("worker:0")) is (HALF_MADE in cluster.log("worker:0"))
    assert (trained.step, trained.tally) == (300, [150.0, 150.0, 0.0, 0.0])


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
    trained = cluster.end_well()
    assert HALF_MADE in cluster.log("worker:0")
    return trained


def test_an_update_that_a_chief_has_left_half_made_is_made_again(tally: Start) -> None:
    cluster = tally(400, save_seconds=0.1)
    cluster.reach("worker:1", 20)
    cluster.kill("worker:0")
    leave_half_made(cluster)
    trained = train_on(cluster)
    assert (trained.step, trained.tally) == (400, [200.0, 200.0, 0.0, 0.0])


@pytest.mark.long
def test_a_worker_that_is_leaving_then_trains_again_what_was_lost(
    tally: Start, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    cluster = tally(40, program="toys:held", fewer=20, until=go_on, save_seconds=1000)
    # Its data ends, and the chief, which waits for its own, does not hear of it.
    cluster.reach("worker:1", 20)
    leave_half_made(cluster)
    cluster.kill("worker:0")
    go_on.touch()
    trained = train_on(cluster)
    # 20 steps of both, from the checkpoint of step 0 on, then 20 of the chief.
    assert (trained.step, trained.tally) == (40, [30.0, 10.0, 0.0, 0.0])


@pytest.mark.parametrize(("ps", "sync"), [("ps:0", True), *longer(("ps:1", True), ("ps:1", False))])
def test_a_ps_that_comes_back_empty_is_filled_from_the_last_checkpoint(
    tally: Start, ps: str, sync: bool
) -> None:
    cluster = tally(300, sync=sync, save_seconds=0.2)
    cluster.reach("worker:1", 50)
    cluster.replace(ps)
    trained = cluster.end_well()
    assert "restored" in cluster.log("worker:0")
    assert trained.positions == [300, 300]
    if sync:
        assert (trained.step, trained.tally) == (300, [150.0, 150.0, 0.0, 0.0])


@pytest.mark.long
@pytest.mark.parametrize("sync", [True, False])
def test_an_in_graph_worker_that_is_lost_costs_no_data(tally: Start, sync: bool) -> None:
    cluster = tally(3000, "in-graph", sync)
    cluster.reach("client:0", 50)
    cluster.replace("worker:1")
    trained = cluster.end_well()
    assert "lost a server" in cluster.log("client:0")
    assert trained.positions == [3000, 3000]
    each = 1500.0 if sync else 3000.0
    assert trained.values["dense"].tolist() == pytest.approx([each, each, 0.0, 0.0], abs=1)


@pytest.mark.long
def test_a_killed_in_graph_client_goes_on_where_it_was(tally: Start) -> None:
    cluster = tally(300, "in-graph")
    cluster.reach("client:0", 50)
    cluster.replace("client:0")
    # The step that was under way may have been counted in one of the two counters only.
    assert cluster.end_well().step == pytest.approx(300, abs=1)
    assert "restored" not in cluster.log("client:0")
