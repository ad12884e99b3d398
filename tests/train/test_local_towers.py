"""Several devices: towers in one process and inside the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from trained import same

import psclust
from psclust.errors import PsclustError, UsageError

pytestmark = pytest.mark.tensorflow

# The ways with several towers that step together, each with its number of workers; a worker has two
# devices.
ALONE, BETWEEN, IN_GRAPH = (None, 1), ("between-graph", 1), ("in-graph", 1)
LONG = pytest.mark.long
PAIRS = [("between-graph", 2), pytest.param("in-graph", 2, marks=LONG)]


def _positions(trained: Any) -> list[int]:
    return trained.values["psclust/positions"].tolist()


def _config(**settings: Any) -> psclust.TrainConfig:
    return psclust.TrainConfig(**settings)


@pytest.mark.parametrize(
    ("replication", "workers"), [ALONE, pytest.param(*BETWEEN, marks=LONG), *PAIRS]
)
def test_towers_end_their_data_at_different_steps(
    train_here: Callable[..., Any], replication: str | None, workers: int
) -> None:
    import toys

    # 97 points in batches of 12: of two towers the first has 49 points, nine batches, the second
    # 48, eight. Of four, one has 25, in nine batches of 3, the others 24.
    program = toys.line.with_params({"points": 97})
    alone = train_here(program, folder="alone")
    trained = train_here(program, replication, sync=True, workers=workers, devices=2)
    assert trained.step == 9
    same(alone, trained)
    if replication != "between-graph":
        assert _positions(trained) == [9] + [8] * (2 * workers - 1)


@pytest.mark.parametrize(
    ("replication", "split"),
    [
        (None, False),
        *(
            pytest.param(*how, marks=LONG)
            for how in ((None, True), ("between-graph", False), ("between-graph", True))
        ),
        *(pytest.param("in-graph", split, marks=LONG) for split in (False, True)),
    ],
)
def test_accumulated_batches_of_towers_are_one_large_batch(
    train_here: Callable[..., Any], replication: str | None, split: bool
) -> None:
    import toys

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
        pytest.param("between-graph", 2, 2, True, marks=LONG),
        *(pytest.param("between-graph", 2, 1, split, marks=LONG) for split in (False, True)),
        *(
            pytest.param(*how, marks=LONG)
            for how in (
                (None, 1, 2, True),
                ("between-graph", 2, 2, False),
                ("in-graph", 2, 1, False),
                ("in-graph", 2, 1, True),
            )
        ),
    ],
)
def test_what_is_uneven_is_dropped_where_that_is_asked_for(
    train_here: Callable[..., Any], replication: str | None, workers: int, devices: int, split: bool
) -> None:
    import nets

    # 107 points: eight batches of 12, and 11 points. Of several towers the last one has fewer
    # batches than the others; who waits for its moments is let go.
    even = train_here(nets.net(_config(moving_statistics="sync"), points=96), folder="alone")
    assert even.step == 8
    dropping = nets.net(
        _config(moving_statistics="sync", drop_uneven=True, split_batch=split), points=107
    )
    same(even, train_here(dropping, replication, sync=True, workers=workers, devices=devices))


@LONG
@pytest.mark.parametrize(("replication", "workers"), [pytest.param(*BETWEEN, marks=LONG), *PAIRS])
def test_asynchronous_workers_apply_one_gradient_of_all_their_towers(
    train_here: Callable[..., Any], replication: str, workers: int
) -> None:
    import toys

    # Tower i adds 1 to element i of either variable with each of its gradients, a half where two
    # towers are averaged.
    trained = train_here(toys.tally, replication, workers=workers, devices=2)
    towers = 2 * workers
    each, steps = (50.0, 100 * workers) if replication == "between-graph" else (100.0, 100 * towers)
    assert trained.step == steps
    assert (
        trained.values["dense"].tolist()
        == trained.values["sparse"][:, 0].tolist()
        == [each] * towers + [0.0] * (4 - towers)
    )
    assert _positions(trained) == [100] * towers


@LONG
def test_asynchronous_workers_with_several_towers_keep_pace(train_here: Callable[..., Any]) -> None:
    import toys

    trained = train_here(toys.tally, "between-graph", devices=2, max_staleness=2)
    assert (trained.step, _positions(trained)) == (200, [100] * 4)


@LONG
def test_late_gradients_of_all_towers_of_a_worker_are_dropped_as_one(
    train_here: Callable[..., Any],
) -> None:
    import toys

    trained = train_here(toys.tally, "between-graph", sync=True, devices=2, backup_workers=1)
    # One worker or both in each step: a half for each tower of one, a quarter for each tower of
    # both.
    added = trained.values["dense"]
    assert (added[0], added[2]) == (added[1], added[3])
    assert added.sum() == pytest.approx(trained.step)


@pytest.mark.parametrize(
    ("first", "then", "split", "steps"),
    [
        # 40 steps of two towers are 20 batches of each of four, which have 80 left.
        pytest.param(ALONE, ("between-graph", 2), False, 40 + 80, marks=LONG),
        pytest.param(("between-graph", 2), ALONE, False, 40 + 20, marks=LONG),
        pytest.param(("between-graph", 2), ("in-graph", 2), False, 40 + 60, marks=LONG),
        pytest.param(ALONE, ("in-graph", 2), True, 40 + 60, marks=LONG),
    ],
)
def test_a_training_goes_on_where_it_was_with_as_many_batches_as_are_left(
    train_here: Callable[..., Any],
    first: tuple[str | None, int],
    then: tuple[str | None, int],
    split: bool,
    steps: int,
) -> None:
    import toys

    program = toys.tally.with_config([f"split_batch={split}"])
    train_here(
        program, first[0], sync=True, workers=first[1], devices=2, max_steps=40, folder="model"
    )
    assert (
        train_here(program, then[0], sync=True, workers=then[1], devices=2, folder="model").step
        == steps
    )


@LONG
def test_moving_statistics_are_those_of_the_first_tower_or_of_all(
    train_here: Callable[..., Any],
) -> None:
    import toys

    # Tower i of four sees the constant 10 * (i + 1), ten times; each update moves the mean by half
    # of the way.
    for moving, expected in (("first", 10.0), ("mean", 25.0)):
        program = toys.levels(_config(moving_statistics=moving))
        trained = train_here(program, "between-graph", sync=True, devices=2, folder=moving)
        assert trained.values["norm/moving_mean"][0] == pytest.approx(expected * (1 - 0.5**10))


@LONG
@pytest.mark.parametrize("split", [True, pytest.param(False, marks=LONG)])
def test_towers_that_have_ended_stay_for_those_that_wait_for_their_moments(
    train_here: Callable[..., Any], split: bool
) -> None:
    import nets

    # 97 points: the second worker, and three of four towers, have nothing left in the last step.
    alone = train_here(nets.net(_config(moving_statistics="sync"), points=97), folder="alone")
    program = nets.net(_config(moving_statistics="sync", split_batch=split), points=97)
    same(alone, train_here(program, "between-graph", sync=True, devices=2, folder="towers"))


@LONG
def test_workers_may_have_different_numbers_of_devices_where_they_split_their_batches(
    train_here: Callable[..., Any],
) -> None:
    import toys

    with pytest.raises(
        PsclustError,
        match=r"(2|3) devices for towers and worker:0, the chief, has 2, .* split_batch=True",
    ):
        train_here(toys.line, "between-graph", sync=True, devices=[2, 3])
    alone = train_here(toys.line, folder="alone")
    same(
        alone,
        train_here(
            toys.line.with_config(["split_batch=True"]),
            "between-graph",
            sync=True,
            devices=[2, 3],
            folder="split",
        ),
    )


@LONG
def test_every_tower_writes_its_summaries(train_here: Callable[..., Any]) -> None:
    import nets

    program = nets.watched(_config(summary_steps=5))
    for replication in (None, "between-graph"):
        folder = train_here(program, replication, sync=True, workers=1, devices=2).model_dir
        assert _seen(folder) == {0.0}
        assert _seen(folder / "tower_1") == {1.0}


def _seen(folder: Path) -> set[float]:
    files = folder.glob("events.*")
    events = (event for file in files for event in tf.compat.v1.train.summary_iterator(str(file)))
    return {
        value.simple_value
        for event in events
        for value in event.summary.value
        if value.tag == "seen"
    }


# ---- what is refused


@pytest.mark.parametrize(("replication", "workers"), [ALONE, BETWEEN, IN_GRAPH])
def test_a_tower_without_any_data_is_named(
    train_here: Callable[..., Any], replication: str | None, workers: int
) -> None:
    import toys

    empty = toys.tally.with_params({"fewer": 100})
    where = {None: "CPU:1", "in-graph": "worker:0 CPU:1", "between-graph": "worker:0"}[replication]
    with pytest.raises(UsageError, match=f"the input of {where} has no batch at all"):
        train_here(empty, replication, sync=True, workers=workers, devices=2)


def test_a_server_with_fewer_devices_than_asked_for_is_named_with_the_remedy(
    train_here: Callable[..., Any],
) -> None:
    import toys

    program = toys.line.with_config(["device_count=3"])
    with pytest.raises(
        UsageError, match=r"worker:0 has 2 CPU devices: .* jobs: \{worker: \{device_count: 3\}\}"
    ):
        train_here(program, "in-graph", sync=True, devices=2)
    limited = train_here(
        toys.line.with_config(["device_count=1"]), "in-graph", sync=True, devices=2
    )
    assert len(_positions(limited)) == 2


def test_a_ready_train_op_is_refused_on_several_devices(train_here: Callable[..., Any]) -> None:
    import toys

    def model(
        features: Any, labels: Any, mode: str, params: dict[str, Any]
    ) -> psclust.EstimatorSpec:
        spec = toys._line(features, labels, mode, params)
        return spec._replace(
            train_op=tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(spec.loss)
        )

    program = psclust.Program(model, toys._line_input, params=toys.LINE)
    for replication, where in (
        (None, "one process with several devices"),
        ("between-graph", "a worker with several devices"),
    ):
        with pytest.raises(
            UsageError, match=f"in {where} the gradients of all replicas are combined"
        ):
            train_here(program, replication, devices=2)
