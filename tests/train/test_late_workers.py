"""Synchronous training with backup workers: which gradients a step is made of, and what becomes of
the others."""

from __future__ import annotations

import logging

import pytest
import toys
from played import Stage, played
from ways import Start, Train

pytestmark = pytest.mark.tensorflow


@pytest.mark.long
def test_a_late_worker_is_not_waited_for_and_its_late_gradient_counts_for_nothing(
    train_here: Train, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage()

    def play(replica: int, batch: int) -> None:
        stage.begin(replica)
        if (replica, batch) == (0, 1):
            stage.await_begun(2, 1)
        if (replica, batch) == (2, 0):
            stage.await_begun(0, 31)

    with caplog.at_level(logging.INFO, "psclust"):
        late = {"workers": 3, "backup_workers": 1}
        program = played(play, [30, 30, 30])
        trained = train_here(program, "between-graph", sync=True, here=True, **late)
    # 30 steps of the first two, weighted by their one and two examples; then 29 of the third alone,
    # whose first batch has come too late.
    expected = pytest.approx([10.0, 20.0, 29.0, 0.0], rel=1e-5)
    assert (trained.step, trained.tally) == (59, expected)
    # The batch of the gradient that was dropped is used up.
    assert trained.positions == [30, 30, 30]
    assert "trained to step 59, 1 late gradient dropped" in caplog.text


def test_every_step_is_the_mean_of_the_gradients_it_took(train_here: Train) -> None:
    program, late = toys.tally.with_params({"batches": 50}), {"workers": 4, "backup_workers": 2}
    trained = train_here(program, "between-graph", sync=True, here=True, **late)
    # Whoever is late: a step over n gradients adds 1 / n for each, so all of them together add 1.
    assert sum(trained.tally) == pytest.approx(trained.step, rel=1e-4)
    assert trained.step >= 50
    assert max(trained.positions) == 50


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("lost", ["worker:0", "worker:2"])
def test_a_killed_worker_holds_nobody_up_where_there_is_a_backup(
    processes: Start, lost: str
) -> None:
    backup = {"environment": {"PSCLUST_BACKUP_WORKERS": "1"}, "worker": 3}
    data = {"batches": 1000, "log_seconds": 0.5}
    cluster = processes("between-graph", True, "toys:tally", **backup, **data)
    cluster.reach("worker:1", 20)
    cluster.kill(lost)
    if lost != "worker:0":
        cluster.reach("worker:1", cluster.step("worker:1") + 20)
    cluster.start(lost)
    trained = cluster.end_well()
    # A chief killed between the update of a variable and the count of the step leaves the two one
    # apart.
    apart = 1.01 if lost == "worker:0" else 1e-2
    assert sum(trained.values["dense"].tolist()) == pytest.approx(trained.step, abs=apart)
    assert trained.step >= 999
