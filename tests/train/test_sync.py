"""Synchronous between-graph training: whose gradients a step is made of."""

from __future__ import annotations

import pytest
import toys
from ways import Train, replications, ways

from beds.tiers import LONG

pytestmark = pytest.mark.tensorflow


@replications("in-graph")
def test_a_worker_that_ends_its_data_early_leaves_and_the_rest_go_on(
    train_here: Train, replication: str
) -> None:
    trained = train_here(toys.tally.with_params({"fewer": 60}), replication, sync=True)
    # 40 steps of both, then 60 of the first alone.
    assert (trained.step, trained.tally) == (100, [80.0, 20.0, 0.0, 0.0])


@replications("between-graph")
def test_asynchronous_workers_apply_every_gradient_in_full(
    train_here: Train, replication: str
) -> None:
    trained = train_here(toys.tally.with_params({"fewer": 60}), replication)
    assert (trained.step, trained.positions) == (140, [100, 40])
    assert trained.tally == [100.0, 40.0, 0.0, 0.0]


@LONG
@pytest.mark.parametrize("sync", [True, False])
def test_a_chief_job_trains_as_a_replica_of_its_own(train_here: Train, sync: bool) -> None:
    trained = train_here(toys.tally, "between-graph", sync=sync, workers=1, chief=1)
    assert trained.positions == [100, 100]
    assert trained.tally == [50.0 if sync else 100.0] * 2 + [0.0] * 2


@replications(None, "between-graph")
def test_max_steps_ends_the_training_of_all(train_here: Train, replication: str | None) -> None:
    assert train_here(toys.tally, replication, sync=True, max_steps=30).step == 30


# Between-graph, synchronous is where restarts and data are hardest.
@ways(("between-graph", True))
def test_a_training_that_is_started_again_goes_on_where_the_data_was(
    train_here: Train, replication: str, sync: bool
) -> None:
    train_here(toys.tally, replication, sync=sync, max_steps=30)
    trained = train_here(toys.tally, replication, sync=sync)
    assert (trained.step, trained.positions) == (100 if sync else 200, [100, 100])
    assert trained.tally == [50.0 if sync else 100.0] * 2 + [0.0] * 2
