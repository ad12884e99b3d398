"""Synchronous between-graph training whose variables come back while gradients leave: the weights
of one process, whatever happens."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import wide
from trained import Trained, same
from ways import Start, Train

from beds.graphs import build
from beds.tiers import LONG, longer
from psclust.placement.placement_settings import PlacementSettings

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("optimizer", "config"),
    [
        ("adam", {"average_decay": 0.9, "weight_decay": 0.001}),
        *longer(("momentum", {}), ("sgd", {"accumulate": 2})),
    ],
)
def test_they_give_the_weights_of_one_process(
    train_here: Train, optimizer: str, config: dict[str, Any]
) -> None:
    program = wide.program(optimizer, **config)
    same(train_here(program), train_here(program, "between-graph", sync=True))


@pytest.mark.long
def test_a_small_model_in_shards_gets_the_weights_of_one_process(
    train_here: Train,
) -> None:
    program = wide.program().with_params({"width": 150})
    cut = PlacementSettings(max_shard_bytes=50_000)
    same(train_here(program), train_here(program, "between-graph", sync=True, placement=cut))


@pytest.mark.parametrize(("max_shard_bytes", "streamed"), [(50_000, True), ("none", False)])
def test_a_small_model_is_streamed_if_each_ps_has_shards_of_it(
    max_shard_bytes: Any, streamed: bool
) -> None:
    program = wide.program().with_params({"width": 150})
    placement = PlacementSettings(max_shard_bytes=max_shard_bytes)
    with tf.Graph().as_default():
        built = build(program, "between-graph sync", placement)
    assert bool(built.streamed) is streamed


# The first is the chief's own.
@pytest.mark.long
@pytest.mark.parametrize(("workers", "quitter"), [(3, 2), (2, 1), (2, 0)])
def test_a_worker_whose_data_ends_leaves_in_the_middle_of_a_round(
    train_here: Train, workers: int, quitter: int
) -> None:
    program = wide.program().with_params({"fewer": 8, "quitter": quitter})
    trained = train_here(program, "between-graph", sync=True, workers=workers)
    assert trained.positions == [12 if worker == quitter else 20 for worker in range(workers)]
    same(train_here(program, "in-graph", sync=True, workers=workers), trained)


@LONG
def test_a_step_that_is_under_way_when_a_worker_asks_to_stop_is_not_made(
    train_here: Train,
) -> None:
    program = wide.program().with_params({"stop_at": 7})
    trained = train_here(program, "between-graph", sync=True, workers=3)
    assert trained.step == 7
    same(train_here(wide.program(), max_steps=7), trained)


@LONG
@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_a_training_goes_on_with_copies_where_it_was(train_here: Train, replication: str) -> None:
    train_here(wide.program(), replication, sync=True, folder="model", max_steps=8)
    trained = train_here(wide.program(), replication, sync=True, folder="model")
    same(train_here(wide.program()), trained)


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "mortal", "said"),
    [
        ("averaged", "worker:1", "a worker died in the middle of step 5"),
        *longer(
            ("trained", "worker:1", "a worker died in the middle of step 5"),
            ("averaged", "worker:0", "rolling back a step that was half made"),
        ),
    ],
)
def test_a_task_that_dies_half_way_through_its_push_leaves_no_trace(
    train_here: Train,
    processes: Start,
    tmp_path: Path,
    program: str,
    mortal: str,
    said: str,
) -> None:
    cluster = _one_dies(processes, f"wide:{program}", mortal, tmp_path / "died")
    trained = cluster.end_well()
    assert said in cluster.log("worker:0")
    same(train_here(getattr(wide, program)), trained)


def _one_dies(processes: Start, program: str, mortal: str, mark: Path) -> Any:
    """A cluster of which the task `mortal` has killed itself in a step, and has come back."""
    cluster = processes("between-graph", True, program, mortal=mortal, mark=mark)
    cluster.clients[mortal].join()
    assert mark.exists()
    assert cluster.clients[mortal].exitcode == -signal.SIGKILL
    cluster.start(mortal)
    return cluster


@pytest.mark.long
@pytest.mark.process
def test_a_gradient_of_a_task_that_was_thought_dead_leaves_no_trace(
    train_here: Train, processes: Start
) -> None:
    cluster = processes("between-graph", True, "wide:trained", haunted_at=5)
    same(train_here(wide.trained), cluster.end_well())


@LONG
@pytest.mark.process
@pytest.mark.parametrize("mortal", ["worker:1", "worker:0"])
def test_a_task_that_dies_finds_the_differences_of_the_others(
    train_here: Train, processes: Start, tmp_path: Path, mortal: str
) -> None:
    rounded = _one_dies(processes, "wide:rounded", mortal, tmp_path / "died").end_well()
    first = train_here(wide.trained, folder="first", max_steps=1)
    _is_near(train_here(wide.trained), rounded, first)


@LONG
@pytest.mark.process
def test_a_worker_that_is_killed_between_its_steps_finds_the_differences_of_the_others(
    processes: Start,
) -> None:
    cluster = processes("between-graph", True, "wide:rounded", steps=60, log_seconds=0.1)
    for step in (10, 25, 40):
        cluster.reach("worker:1", step)
        cluster.replace("worker:1")
    cluster.end_well()


@pytest.mark.long
def test_copies_are_what_their_ps_have_sent(train_here: Train) -> None:
    first = train_here(wide.trained, folder="first", max_steps=1)
    _is_near(train_here(wide.trained), train_here(wide.rounded, "between-graph", sync=True), first)


def _is_near(one: Trained, rounded: Trained, first: Trained) -> None:
    """The error of rounding is small beside what the training has changed."""
    for name in (f"layer{layer}" for layer in range(4)):
        error = (
            np.abs(rounded.values[name] - one.values[name]).mean()
            / np.abs(one.values[name] - first.values[name]).mean()
        )
        # Measured: up to 0.004.
        assert error < 0.02


@LONG
@pytest.mark.process
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tasks_that_are_killed_at_any_moment_leave_no_trace(
    train_here: Train, processes: Start, seed: int
) -> None:
    # A ps is killed less often than clients: what follows is a training restored from a checkpoint.
    chance, often = random.Random(seed), {"save_seconds": 0.5, "log_seconds": 0.1}
    cluster = processes("between-graph", True, "wide:trained", steps=150, **often)
    cluster.reach("worker:1", 5)
    for _ in range(6):
        # Not a wait for something: the moment is what is tried.
        time.sleep(chance.uniform(0.0, 1.5))
        task = chance.choice(["worker:0", "worker:0", "worker:1", "worker:1", "ps:1"])
        if all(client.exitcode is None for client in cluster.clients.values()):
            cluster.replace(task)
    same(train_here(wide.program().with_params({"steps": 150})), cluster.end_well())
