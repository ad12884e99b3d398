"""Synchronous training with backup workers: which gradients a step is made of, and what becomes of
the others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


@pytest.mark.long
def test_a_late_worker_is_not_waited_for_and_its_late_gradient_counts_for_nothing(
    train_here: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    from played import Stage, played

    stage = Stage()

    def play(replica: int, batch: int) -> None:
        stage.begin(replica)
        if (replica, batch) == (0, 1):
            stage.await_begun(2, 1)
        if (replica, batch) == (2, 0):
            stage.await_begun(0, 31)

    with caplog.at_level(logging.INFO, "psclust"):
        trained = train_here(
            played(play, [30, 30, 30]),
            "between-graph",
            sync=True,
            workers=3,
            backup_workers=1,
            here=True,
        )
    # 30 steps of the first two, weighted by their one and two examples; then 29 of the third alone,
    # whose first batch has come too late.
    expected = pytest.approx([10.0, 20.0, 29.0, 0.0], rel=1e-5)
    assert trained.step == 59
    assert trained.values["dense"].tolist() == expected
    assert trained.values["sparse"][:, 0].tolist() == expected
    # The batch of the gradient that was dropped is used up.
    assert trained.values["psclust/positions"].tolist() == [30, 30, 30]
    assert "trained to step 59, 1 late gradient dropped" in caplog.text


def test_every_step_is_the_mean_of_the_gradients_it_took(train_here: Callable[..., Any]) -> None:
    import toys

    trained = train_here(
        toys.tally.with_params({"batches": 50}),
        "between-graph",
        sync=True,
        workers=4,
        backup_workers=2,
        here=True,
    )
    dense, sparse = trained.values["dense"].tolist(), trained.values["sparse"][:, 0].tolist()
    # Whoever is late: a step over n gradients adds 1 / n for each, so all of them together add 1.
    assert sum(dense) == pytest.approx(trained.step, rel=1e-4)
    assert dense == pytest.approx(sparse, rel=1e-5)
    assert trained.step >= 50
    assert max(trained.values["psclust/positions"]) == 50


@pytest.mark.long
def test_the_last_step_leaves_nobody_behind(train_here: Callable[..., Any]) -> None:
    import toys

    assert (
        train_here(
            toys.tally, "between-graph", sync=True, workers=3, backup_workers=2, max_steps=20
        ).step
        == 20
    )


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("lost", ["worker:0", pytest.param("worker:2", marks=pytest.mark.long)])
def test_a_killed_worker_holds_nobody_up_where_there_is_a_backup(
    processes: Callable[..., Any], lost: str
) -> None:
    cluster = processes(
        *("between-graph", True, "toys:tally", "--set", "batches=1000", "--log-seconds", "0.5"),
        worker=3,
        environment={"PSCLUST_BACKUP_WORKERS": "1"},
    )
    cluster.reach("worker:1", 20)
    cluster.kill(lost)
    if lost != "worker:0":
        cluster.reach("worker:1", cluster.step("worker:1") + 20)
    cluster.start(lost)
    assert cluster.end() == {"worker:0": 0, "worker:1": 0, "worker:2": 0}
    trained = cluster.trained()
    # A chief killed between the update of a variable and the count of the step leaves the two one
    # apart.
    assert sum(trained.values["dense"].tolist()) == pytest.approx(
        trained.step, abs=1e-2 if lost != "worker:0" else 1.01
    )
    assert trained.step >= 999
