"""Synchronous between-graph training whose variables come back while gradients leave: the weights
of one process, whatever happens."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from trained import Trained, same

from psclust.placement.placement_settings import PlacementSettings
from psclust.replication.build_between_graph import build_between_graph
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.sync.stream_run import OTHER_ROUND

pytestmark = pytest.mark.tensorflow
LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("optimizer", "config"),
    [
        ("adam", {"average_decay": 0.9, "weight_decay": 0.001}),
        pytest.param("momentum", {}, marks=LONG),
        pytest.param("sgd", {"accumulate": 2}, marks=LONG),
    ],
)
def test_they_give_the_weights_of_one_process(
    train_here: Callable[..., Any], optimizer: str, config: dict[str, Any]
) -> None:
    import wide

    program = wide.program(optimizer, **config)
    same(train_here(program), train_here(program, "between-graph", sync=True))


def test_a_small_model_in_shards_gets_the_weights_of_one_process(
    train_here: Callable[..., Any],
) -> None:
    import wide

    program, cut = (
        wide.program().with_params({"width": 150}),
        PlacementSettings(max_shard_bytes=50_000),
    )
    same(train_here(program), train_here(program, "between-graph", sync=True, placement=cut))


@pytest.mark.parametrize(("max_shard_bytes", "streamed"), [(50_000, True), ("none", False)])
def test_a_small_model_is_streamed_if_each_ps_has_shards_of_it(
    max_shard_bytes: Any, streamed: bool
) -> None:
    import wide

    workers = "/job:worker/task:0", "/job:worker/task:1"
    layout = DeviceLayout(
        2, workers, workers[0], placement=PlacementSettings(max_shard_bytes=max_shard_bytes)
    )
    with tf.Graph().as_default():
        built = build_between_graph(
            wide.program().with_params({"width": 150}), layout, 0, sync=True, chief=True
        )
    assert bool(built.streamed) is streamed


# The last of three is the only one whose gradients go into an accumulator, the first is the chief's
# own.
@pytest.mark.parametrize(("workers", "quitter"), [(2, 1), (3, 2), (2, 0)])
def test_a_worker_whose_data_ends_leaves_in_the_middle_of_a_round(
    train_here: Callable[..., Any], workers: int, quitter: int
) -> None:
    import wide

    program = wide.program().with_params({"fewer": 8, "quitter": quitter})
    trained = train_here(program, "between-graph", sync=True, workers=workers)
    assert trained.values["psclust/positions"].tolist() == [
        12 if worker == quitter else 20 for worker in range(workers)
    ]
    same(train_here(program, "in-graph", sync=True, workers=workers), trained)


@LONG
def test_a_step_that_is_under_way_when_a_worker_asks_to_stop_is_not_made(
    train_here: Callable[..., Any],
) -> None:
    import wide

    trained = train_here(
        wide.program().with_params({"stop_at": 7}), "between-graph", sync=True, workers=3
    )
    assert trained.step == 7
    same(train_here(wide.program(), max_steps=7), trained)


@LONG
def test_a_training_goes_on_with_copies_where_it_was(train_here: Callable[..., Any]) -> None:
    import wide

    train_here(wide.program(), "between-graph", sync=True, folder="model", max_steps=8)
    same(
        train_here(wide.program()),
        train_here(wide.program(), "between-graph", sync=True, folder="model"),
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "mortal", "said"),
    [
        ("averaged", "worker:1", "a worker died in the middle of step 5"),
        pytest.param("trained", "worker:1", "a worker died in the middle of step 5", marks=LONG),
        pytest.param("averaged", "worker:0", "rolling back a step that was half made", marks=LONG),
    ],
)
def test_a_task_that_dies_half_way_through_its_push_leaves_no_trace(
    train_here: Callable[..., Any],
    processes: Callable[..., Any],
    tmp_path: Path,
    program: str,
    mortal: str,
    said: str,
) -> None:
    import wide

    mark = tmp_path / "died"
    cluster = processes(
        "between-graph",
        True,
        f"wide:{program}",
        "--set",
        f"mortal={mortal}",
        "--set",
        f"mark={mark}",
    )
    cluster.clients[mortal].join()
    assert mark.exists()
    assert cluster.clients[mortal].exitcode == -signal.SIGKILL
    cluster.start(mortal)
    assert cluster.end() == {"worker:0": 0, "worker:1": 0}
    assert said in cluster.log("worker:0")
    same(train_here(getattr(wide, program)), cluster.trained())


@pytest.mark.process
def test_a_gradient_of_a_task_that_was_thought_dead_leaves_no_trace(
    train_here: Callable[..., Any], processes: Callable[..., Any]
) -> None:
    import wide

    cluster = processes("between-graph", True, "wide:trained", "--set", "haunted_at=5")
    assert cluster.end() == {"worker:0": 0, "worker:1": 0}
    assert OTHER_ROUND in cluster.log("worker:0")
    same(train_here(wide.trained), cluster.trained())


@LONG
@pytest.mark.process
@pytest.mark.parametrize("mortal", ["worker:1", "worker:0"])
def test_a_task_that_dies_finds_the_differences_of_the_others(
    train_here: Callable[..., Any], processes: Callable[..., Any], tmp_path: Path, mortal: str
) -> None:
    import wide

    mark = tmp_path / "died"
    cluster = processes(
        "between-graph", True, "wide:rounded", "--set", f"mortal={mortal}", "--set", f"mark={mark}"
    )
    cluster.clients[mortal].join()
    assert mark.exists()
    cluster.start(mortal)
    assert cluster.end() == {"worker:0": 0, "worker:1": 0}
    _is_near(
        train_here(wide.trained),
        cluster.trained(),
        train_here(wide.trained, folder="first", max_steps=1),
    )


@LONG
@pytest.mark.process
def test_a_worker_that_is_killed_between_its_steps_finds_the_differences_of_the_others(
    processes: Callable[..., Any],
) -> None:
    cluster = processes(
        "between-graph", True, "wide:rounded", "--set", "steps=60", "--log-seconds", "0.1"
    )
    for step in (10, 25, 40):
        cluster.reach("worker:1", step)
        cluster.kill("worker:1")
        cluster.start("worker:1")
    assert cluster.end() == {"worker:0": 0, "worker:1": 0}


def test_copies_are_what_their_ps_have_sent(train_here: Callable[..., Any]) -> None:
    import wide

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
def test_a_ps_that_dies_half_way_through_a_round_is_filled_from_the_last_checkpoint(
    train_here: Callable[..., Any], processes: Callable[..., Any]
) -> None:
    import wide

    cluster = processes(
        "between-graph",
        True,
        "wide:trained",
        "--set",
        "steps=60",
        "--save-seconds",
        "0.2",
        "--log-seconds",
        "0.1",
    )
    cluster.reach("worker:1", 10)
    cluster.kill("ps:1")
    cluster.serve("ps:1")
    assert cluster.end() == {"worker:0": 0, "worker:1": 0}
    assert "restored" in cluster.log("worker:0")
    same(train_here(wide.program().with_params({"steps": 60})), cluster.trained())


@LONG
@pytest.mark.process
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tasks_that_are_killed_at_any_moment_leave_no_trace(
    train_here: Callable[..., Any], processes: Callable[..., Any], seed: int
) -> None:
    import wide

    # A ps is killed less often than clients: what follows is a training restored from a checkpoint.
    chance, steps = random.Random(seed), 150
    cluster = processes(
        "between-graph",
        True,
        "wide:trained",
        "--set",
        f"steps={steps}",
        "--save-seconds",
        "0.5",
        "--log-seconds",
        "0.1",
    )
    cluster.reach("worker:1", 5)
    for _ in range(6):
        # Not a wait for something: the moment is what is tried.
        time.sleep(chance.uniform(0.0, 1.5))
        task = chance.choice(["worker:0", "worker:0", "worker:1", "worker:1", "ps:1"])
        if all(client.exitcode is None for client in cluster.clients.values()):
            cluster.kill(task)
            cluster.serve(task) if task == "ps:1" else cluster.start(task)
    assert cluster.end() == {"worker:0": 0, "worker:1": 0}
    same(train_here(wide.program().with_params({"steps": steps})), cluster.trained())
