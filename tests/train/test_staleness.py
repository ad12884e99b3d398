"""Asynchronous training: how stale updates are, and how far a replica may be ahead of the
slowest."""

from __future__ import annotations

import logging
import re
import threading

import pytest
import toys
from played import Stage, played
from ways import Start, Train, replications

from beds.tiers import longer
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.tensorflow


def _said(text: str) -> tuple[float, int]:
    """Mean and maximum in the last line."""
    found = re.findall(r"trained to step \d+, staleness (\S+) \(max (\d+)\)", text)
    assert found, text
    return float(found[-1][0]), int(found[-1][1])


@replications("between-graph")
def test_an_update_knows_how_many_others_were_made_since_its_variables_were_read(
    train_here: Train, caplog: pytest.LogCaptureFixture, replication: str
) -> None:
    stage = Stage()

    def play(replica: int, batch: int) -> None:
        stage.begin(replica)
        if (replica, batch) == (1, 1):
            stage.await_begun(0, 1)
        if (replica, batch) == (0, 0):
            # The first replica makes one update, with what it read before the other made twenty.
            stage.await_begun(1, 21)

    with caplog.at_level(logging.INFO, "psclust"):
        assert train_here(played(play, [1, 20]), replication, here=True).step == 21
    mean, greatest = _said(caplog.text)
    # That reading is done on a ps, and a few updates of the other may come before it.
    assert 10 <= greatest <= 20
    assert mean == pytest.approx(greatest / 21 if replication == "in-graph" else greatest, abs=0.06)


def test_one_replica_alone_is_never_stale(
    train_here: Train, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "psclust"):
        train_here(toys.tally, "between-graph", workers=1, here=True)
    assert "trained to step 100\n" in caplog.text


@pytest.mark.parametrize(
    ("replication", "bound"),
    [
        ("between-graph", 0),
        *longer(("in-graph", 3), ("in-graph", 0), ("between-graph", 3)),
    ],
)
def test_nobody_runs_further_ahead_of_the_slowest_than_allowed_but_that_far(
    train_here: Train, replication: str, bound: int
) -> None:
    stage, batches, leads = Stage(), 20, []
    lock = threading.Lock()

    def play(replica: int, batch: int) -> None:
        if replica == 1:
            # As slow as can be: a batch only when the other has gone as far as it may, having made
            # `bound` steps more.
            stage.await_begun(0, min(batch + bound, batches) + 1)
        stage.begin(replica)
        with lock:
            if replica == 0 and batch < batches:
                leads.append(batch - stage.begun(1))

    program = played(play, [batches, batches])
    trained = train_here(program, replication, max_staleness=bound, here=True)
    assert trained.positions == [batches, batches]
    # A batch begins when the slowest has made at least that many steps less.
    assert max(leads) <= bound


@replications("between-graph")
def test_who_has_ended_holds_nobody_up(train_here: Train, replication: str) -> None:
    program = toys.tally.with_params({"fewer": 60})
    assert train_here(program, replication, max_staleness=2, here=True).positions == [100, 40]


@pytest.mark.long
@replications("between-graph")
def test_in_lockstep_the_wanted_number_of_steps_ends_the_training_of_all(
    train_here: Train, replication: str
) -> None:
    limits = {"max_staleness": 0, "max_steps": 30}
    trained = train_here(toys.tally, replication, workers=3, here=True, **limits)
    assert 30 <= trained.step <= 32
    first, *others = trained.positions
    assert all(abs(other - first) <= 1 for other in others)


@pytest.mark.long
@pytest.mark.process
def test_a_killed_worker_is_waited_for_where_staleness_is_bounded(
    processes: Start,
) -> None:
    bound = {"PSCLUST_MAX_STALENESS": "5"}
    data = {"batches": 400, "log_seconds": 0.5, "save_seconds": 0.2}
    cluster = processes("between-graph", False, "toys:tally", environment=bound, **data)
    cluster.reach("worker:1", 50)
    cluster.kill("worker:1")

    def lead() -> int:
        first, second = cluster.trained().positions
        assert first < 400
        return int(first - second)

    wait_until(lambda: lead() == 6, what="worker:0 as far ahead as it may be")
    cluster.start("worker:1")
    assert cluster.end_well().positions == [400, 400]
    assert re.search(r"step \d+ .*staleness \d+\.\d \(max \d+\)", cluster.log("worker:0"))
