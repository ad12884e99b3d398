"""Synchronous between-graph training: whose gradients a step is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import toys

from psclust.errors import UsageError

pytestmark = pytest.mark.tensorflow


LONG = pytest.mark.long
# Between-graph, synchronous is where restarts and data are hardest; the other pairs take long.
PAIRS = [
    ("between-graph", True),
    *(
        pytest.param(*how, marks=LONG)
        for how in (("in-graph", False), ("in-graph", True), ("between-graph", False))
    ),
]


def _tally(trained: Any) -> tuple[list[float], list[float]]:
    return trained.values["dense"].tolist(), trained.values["sparse"][:, 0].tolist()


@LONG
@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_every_step_takes_exactly_one_gradient_of_every_worker(
    train_here: Callable[..., Any], replication: str
) -> None:
    trained = train_here(toys.tally, replication, sync=True, workers=3)
    third = pytest.approx([100 / 3, 100 / 3, 100 / 3, 0.0], rel=1e-5)
    assert trained.step == 100
    assert _tally(trained) == (third, third)


@pytest.mark.parametrize("replication", ["in-graph", pytest.param("between-graph", marks=LONG)])
def test_a_worker_that_ends_its_data_early_leaves_and_the_rest_go_on(
    train_here: Callable[..., Any], replication: str
) -> None:
    trained = train_here(toys.tally.with_params({"fewer": 60}), replication, sync=True)
    # 40 steps of both, then 60 of the first alone.
    assert trained.step == 100
    assert _tally(trained) == ([80.0, 20.0, 0.0, 0.0],) * 2


@pytest.mark.parametrize("replication", [pytest.param("in-graph", marks=LONG), "between-graph"])
def test_asynchronous_workers_apply_every_gradient_in_full(
    train_here: Callable[..., Any], replication: str
) -> None:
    trained = train_here(toys.tally.with_params({"fewer": 60}), replication)
    assert trained.step == 140
    assert _tally(trained) == ([100.0, 40.0, 0.0, 0.0],) * 2
    assert trained.values["psclust/positions"].tolist() == [100, 40]


@LONG
@pytest.mark.parametrize("sync", [True, pytest.param(False, marks=LONG)])
def test_a_chief_job_trains_as_a_replica_of_its_own(
    train_here: Callable[..., Any], sync: bool
) -> None:
    trained = train_here(toys.tally, "between-graph", sync=sync, workers=1, chief=1)
    assert trained.values["psclust/positions"].tolist() == [100, 100]
    assert _tally(trained) == ([50.0 if sync else 100.0] * 2 + [0.0] * 2,) * 2


@pytest.mark.parametrize(
    "replication", [None, pytest.param("in-graph", marks=LONG), "between-graph"]
)
def test_max_steps_ends_the_training_of_all(
    train_here: Callable[..., Any], replication: str | None
) -> None:
    assert train_here(toys.tally, replication, sync=True, max_steps=30).step == 30


@pytest.mark.parametrize(("replication", "sync"), PAIRS)
def test_a_training_that_is_started_again_goes_on_where_the_data_was(
    train_here: Callable[..., Any], replication: str, sync: bool
) -> None:
    train_here(toys.tally, replication, sync=sync, max_steps=30)
    trained = train_here(toys.tally, replication, sync=sync)
    assert trained.values["psclust/positions"].tolist() == [100, 100]
    assert trained.step == (100 if sync else 200)
    assert _tally(trained) == ([50.0 if sync else 100.0] * 2 + [0.0] * 2,) * 2


@pytest.mark.parametrize(("replication", "sync"), PAIRS)
def test_a_replica_without_any_data_is_an_error_that_names_it(
    train_here: Callable[..., Any], replication: str, sync: bool
) -> None:
    with pytest.raises(UsageError, match="the input of worker:1 has no batch at all"):
        train_here(toys.tally.with_params({"fewer": 100}), replication, sync=sync)
