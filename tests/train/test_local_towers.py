"""Several devices: towers in one process and inside the workers of a cluster."""

from __future__ import annotations

from typing import Any

import nets
import old_program
import pytest
import toys
from trained import same
from ways import Train

import psclust
from beds.tiers import LONG, longer
from psclust.errors import PsclustError, UsageError

pytestmark = pytest.mark.tensorflow

# The ways with several towers that step together, each with its number of workers; a worker has two
# devices.
ALONE, BETWEEN, IN_GRAPH = (None, 1), ("between-graph", 1), ("in-graph", 1)
PAIRS = [("between-graph", 2), *longer(("in-graph", 2))]
SHARED = psclust.TrainConfig(moving_statistics="sync")


@pytest.mark.parametrize(("replication", "workers"), [ALONE, *longer(BETWEEN), *PAIRS])
def test_towers_end_their_data_at_different_steps(
    train_here: Train, replication: str | None, workers: int
) -> None:
    # 97 points in batches of 12: of two towers the first has 49 points, nine batches, the second
    # 48, eight. Of four, one has 25, in nine batches of 3, the others 24.
    program = toys.line.with_params({"points": 97})
    alone = train_here(program, folder="alone")
    trained = train_here(program, replication, sync=True, workers=workers, devices=2)
    assert trained.step == 9
    same(alone, trained)
    if replication != "between-graph":
        assert trained.positions == [9] + [8] * (2 * workers - 1)


@pytest.mark.parametrize(
    ("replication", "split"),
    [
        (None, False),
        *longer((None, True), ("between-graph", False), ("between-graph", True)),
        *longer(("in-graph", False), ("in-graph", True)),
    ],
)
def test_accumulated_batches_of_towers_are_one_large_batch(
    train_here: Train, replication: str | None, split: bool
) -> None:
    # 100 points in batches of 12: nine batches, of which three make an update.
    whole = train_here(toys.line.with_params({"batch": 36}), folder="alone")
    assert whole.step == 3
    program = toys.line.with_config(["accumulate=3", f"split_batch={split}"])
    same(whole, train_here(program, replication, sync=True, devices=2))


@LONG
@pytest.mark.parametrize(
    ("replication", "workers", "devices", "split"),
    [
        (None, 1, 2, False),
        (None, 1, 2, True),
        ("between-graph", 2, 1, False),
        ("between-graph", 2, 1, True),
        ("between-graph", 2, 2, False),
        ("between-graph", 2, 2, True),
        ("in-graph", 2, 1, False),
        ("in-graph", 2, 1, True),
    ],
)
def test_what_is_uneven_is_dropped_where_that_is_asked_for(
    train_here: Train, replication: str | None, workers: int, devices: int, split: bool
) -> None:
    # 107 points: eight batches of 12, and 11 points. Of several towers the last one has fewer
    # batches than the others; who waits for its moments is let go.
    even = train_here(nets.net(SHARED, points=96), folder="alone")
    assert even.step == 8
    settings = ["drop_uneven=True", f"split_batch={split}"]
    dropping = nets.net(SHARED, points=107).with_config(settings)
    same(even, train_here(dropping, replication, sync=True, workers=workers, devices=devices))


@LONG
@pytest.mark.parametrize(
    ("replication", "workers"), [BETWEEN, ("between-graph", 2), ("in-graph", 2)]
)
def test_asynchronous_workers_apply_one_gradient_of_all_their_towers(
    train_here: Train, replication: str, workers: int
) -> None:
    # Tower i adds 1 to element i of either variable with each of its gradients, a half where two
    # towers are averaged.
    trained = train_here(toys.tally, replication, workers=workers, devices=2)
    towers = 2 * workers
    each, steps = (50.0, 100 * workers) if replication == "between-graph" else (100.0, 100 * towers)
    assert trained.step == steps
    assert trained.tally == [each] * towers + [0.0] * (4 - towers)
    assert trained.positions == [100] * towers


@LONG
def test_late_gradients_of_all_towers_of_a_worker_are_dropped_as_one(
    train_here: Train,
) -> None:
    trained = train_here(toys.tally, "between-graph", sync=True, devices=2, backup_workers=1)
    # One worker or both in each step: a half for each tower of one, a quarter for each tower of
    # both.
    added = trained.tally
    assert (added[0], added[2]) == (added[1], added[3])
    assert sum(added) == pytest.approx(trained.step)


@LONG
@pytest.mark.parametrize(
    ("first", "then", "split", "steps"),
    [
        # 40 steps of two towers are 20 batches of each of four, which have 80 left.
        (ALONE, ("between-graph", 2), False, 40 + 80),
        (("between-graph", 2), ALONE, False, 40 + 20),
        (("between-graph", 2), ("in-graph", 2), False, 40 + 60),
        (ALONE, ("in-graph", 2), True, 40 + 60),
    ],
)
def test_a_training_goes_on_where_it_was_with_as_many_batches_as_are_left(
    train_here: Train,
    first: tuple[str | None, int],
    then: tuple[str | None, int],
    split: bool,
    steps: int,
) -> None:
    program = toys.tally.with_config([f"split_batch={split}"])
    same_folder: dict[str, Any] = {"sync": True, "devices": 2, "folder": "model"}
    train_here(program, first[0], workers=first[1], max_steps=40, **same_folder)
    assert train_here(program, then[0], workers=then[1], **same_folder).step == steps


@LONG
@pytest.mark.parametrize("split", [True, False])
def test_towers_that_have_ended_stay_for_those_that_wait_for_their_moments(
    train_here: Train, split: bool
) -> None:
    # 97 points: the second worker, and three of four towers, have nothing left in the last step.
    program = nets.net(SHARED, points=97)
    alone = train_here(program, folder="alone")
    split_by = program.with_config([f"split_batch={split}"])
    same(alone, train_here(split_by, "between-graph", sync=True, devices=2, folder="towers"))


@LONG
def test_workers_may_have_different_numbers_of_devices_where_they_split_their_batches(
    train_here: Train,
) -> None:
    with pytest.raises(
        PsclustError,
        match=r"(2|3) devices for towers and worker:0, the chief, has 2, .* split_batch=True",
    ):
        train_here(toys.line, "between-graph", sync=True, devices=[2, 3])
    program = toys.line.with_config(["split_batch=True"])
    split = train_here(program, "between-graph", sync=True, devices=[2, 3], folder="split")
    same(train_here(toys.line, folder="alone"), split)


# ---- what is refused


@pytest.mark.parametrize(("replication", "workers"), [ALONE, BETWEEN, IN_GRAPH])
def test_a_tower_without_any_data_is_named(
    train_here: Train, replication: str | None, workers: int
) -> None:
    empty = toys.tally.with_params({"fewer": 100})
    where = {None: "CPU:1", "in-graph": "worker:0 CPU:1", "between-graph": "worker:0"}[replication]
    with pytest.raises(UsageError, match=f"the input of {where} has no batch at all"):
        train_here(empty, replication, sync=True, workers=workers, devices=2)


def test_a_server_with_fewer_devices_than_asked_for_is_named_with_the_remedy(
    train_here: Train,
) -> None:
    fewer, more = (toys.line.with_config([f"device_count={count}"]) for count in (1, 3))
    with pytest.raises(
        UsageError, match=r"worker:0 has 2 CPU devices: .* jobs: \{worker: \{device_count: 3\}\}"
    ):
        train_here(more, "in-graph", sync=True, devices=2)
    assert len(train_here(fewer, "in-graph", sync=True, devices=2).positions) == 2


def test_a_ready_train_op_is_refused_on_several_devices(train_here: Train) -> None:
    psclust.estimator.install()
    for replication, where in ((None, "one process"), ("between-graph", "a worker")):
        with pytest.raises(
            UsageError, match=f"in {where} with several devices the gradients of all replicas are"
        ):
            train_here(old_program.program, replication, devices=2)
