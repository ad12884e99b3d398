"""Parts of the data that workers claim one after another: every example is used once an epoch,
whoever comes, goes or dies."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handed_out import BATCH, SIZE, counted, program
from ways import ALONE, Start, ways

import psclust
from psclust.errors import PsclustError, UsageError
from psclust.testing.wait import wait_until
from psclust.train.config import TrainConfig

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

HANDED_OUT = {"PSCLUST_INPUT": "handed_out"}


def _handed_out(**settings: Any) -> psclust.Program:
    return replace(program, config=TrainConfig(handed_out=True, **settings))


@ways(ALONE, ("in-graph", True), ("between-graph", False))
def test_every_example_is_used_once_an_epoch(
    train_here: Callable[..., Any], replication: str | None, sync: bool
) -> None:
    trained = train_here(_handed_out(epochs=3, shuffle_parts=True), replication, sync=sync)
    assert counted(trained.values) == {3}
    assert set(trained.values["psclust/part_epochs"].tolist()) == {3}


def _counts(training: Any) -> set[int]:
    return counted(_ended(training).values)


def _all_but_steps_that_died(training: Any, deaths: int) -> bool:
    """Whether all examples were used once, but for one batch of each death of an asynchronous
    worker: it may count without its update, or be used again."""
    used = np.asarray(_ended(training).values["counts"]).round()
    return set(used) <= {0, 1, 2} and np.count_nonzero(used != 1) <= deaths * BATCH


def _ended(training: Any) -> Any:
    (training.folder / "hurry").touch()
    return training.end_well()


@pytest.fixture
def start(processes: Start, tmp_path: Path) -> Start:
    """Starts a training that is slow until it is to end."""
    given = {"ps": 2, "worker": 3, "examples": 4000, "pause": 0.1, "save_seconds": 1.0}

    def started(replication: str, sync: bool, *words: str, **options: Any) -> Any:
        return processes(
            replication,
            sync,
            "handed_out:program",
            *words,
            environment=HANDED_OUT,
            log_seconds=0.2,
            hurry=tmp_path / "hurry",
            **{**given, **options},
        )

    return started


def test_a_worker_that_dies_leaves_its_part_to_its_successor(start: Start) -> None:
    training = start("between-graph", False)
    for step in (10, 40):
        training.reach("worker:1", step)
        training.replace("worker:1")
    training.reach("worker:0", 70)
    training.replace("worker:0")
    assert _all_but_steps_that_died(training, 3)


@pytest.mark.long
def test_a_lost_ps_takes_the_parts_back_to_the_checkpoint(start: Start) -> None:
    training = start("between-graph", False, save_seconds=0.3)
    training.reach("worker:0", 60)
    training.replace("ps:0")
    assert _counts(training) == {1}


@pytest.mark.long
def test_workers_come_and_go_while_the_others_train(start: Start) -> None:
    training = start("between-graph", False, examples=6000, workers_at_first=1)
    training.reach("worker:0", 10)
    training.workers = 3
    for worker in ("worker:1", "worker:2"):
        training.start(worker)
    training.reach("worker:2", 30)
    training.signal("worker:1", signal.SIGUSR2)
    wait_until(lambda: training.clients["worker:1"].exitcode == 0, what="the end of worker:1")
    assert "worker:1 leaves at step" in training.log("worker:1")
    training.start("worker:1")
    training.reach("worker:1", 60)
    assert _counts(training) == {1}
    assert "restored" not in training.log("worker:0")


@pytest.mark.long
@pytest.mark.parametrize(
    ("replication", "before", "after"),
    [
        ("between-graph", 3, 1),
        ("between-graph", 2, 3),
        ("in-graph", 2, 3),
        ("in-graph", 3, 1),
    ],
)
def test_all_leave_together_and_others_go_on_with_the_live_variables(
    start: Start, replication: str, before: int, after: int
) -> None:
    training = start(replication, True, workers_at_first=before)
    clients = list(training.clients)
    training.reach(clients[0], 15)
    for client in clients:
        training.signal(client, signal.SIGUSR2)
    assert training.end() == dict.fromkeys(clients, 0)
    training.clients.clear()
    training.workers = after
    training.start_all()
    assert _counts(training) == {1}
    assert "restored" not in training.log(clients[0])


@pytest.mark.long
def test_one_that_leaves_before_its_first_step_is_missed_by_nobody(start: Start) -> None:
    training = start("between-graph", False, workers_at_first=1)
    training.reach("worker:0", 10)
    training.workers = 3
    for worker in ("worker:1", "worker:2"):
        training.start(worker)
    wait_until(lambda: _listens(training.clients["worker:1"].pid), what="a worker that listens")
    training.signal("worker:1", signal.SIGUSR2)
    wait_until(lambda: training.clients["worker:1"].exitcode == 0, what="the end of worker:1")
    assert "worker:1 leaves" in training.log("worker:1")
    assert _counts(training) == {1}


def _listens(pid: int) -> bool:
    """Whether the process has a handler of SIGUSR2."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGUSR2 - 1) & 1)


@pytest.mark.long
def test_one_whose_step_a_dead_one_does_not_end_leaves_all_the_same(start: Start) -> None:
    training = start("between-graph", True, workers_at_first=2)
    training.reach("worker:0", 15)
    training.kill("worker:1")
    training.signal("worker:0", signal.SIGUSR2)
    wait_until(lambda: training.clients["worker:0"].exitcode == 0, what="the end of worker:0")
    assert "leaves in the middle of a step that another does not end" in training.log("worker:0")
    training.clients.clear()
    training.workers = 1
    training.start("worker:0")
    assert _counts(training) == {1}
    assert "restored" not in training.log("worker:0")


@pytest.mark.long
def test_a_part_of_the_dead_is_left_as_it_is_where_none_may_be_used_twice(
    start: Start,
) -> None:
    training = start("between-graph", False, "--config", "at_most_once=true")
    training.reach("worker:1", 30)
    training.replace("worker:1")
    used = counted(_ended(training).values)
    assert 1 in used
    assert used <= {0, 1}


def test_each_replica_has_its_own_parts_where_they_are_not_handed_out(
    train_here: Callable[..., Any],
) -> None:
    trained = train_here(replace(program, config=TrainConfig(epochs=2)), "between-graph", workers=2)
    assert counted(trained.values) == {2}
    assert trained.positions == [40, 40]


@pytest.mark.long
def test_a_later_training_goes_on_with_the_parts_that_are_left(
    train_here: Callable[..., Any],
) -> None:
    def train(examples: int, *way: Any, handed_out: bool = True, **options: Any) -> Any:
        config = TrainConfig(handed_out=handed_out, epochs=1)
        changed = replace(program, config=config).with_params({"examples": 200})
        parts = psclust.ranges(examples, SIZE)
        return train_here(replace(changed, data_parts=parts), *way, folder="one", **options)

    first = train(100, "in-graph", max_steps=7)
    assert sum(first.values["counts"]) < 100
    assert counted(train(100, "between-graph").values) == {0, 1}
    longer = train(200, None)
    assert counted(longer.values) == {1}
    with pytest.raises(PsclustError, match="had 20 parts, and data_parts has 10"):
        train(100, None)
    assert counted(train(200, "between-graph", handed_out=False).values) == {2}
    assert counted(train(200, "between-graph").values) == {3}


def test_a_worker_with_other_parts_than_the_chief_is_told(start: Start) -> None:
    training = start("between-graph", False, workers_at_first=1)
    training.reach("worker:0", 1)
    training.workers, training.arguments = 2, [*training.arguments, "--set", "examples=910"]
    training.start("worker:1")
    wait_until(lambda: training.clients["worker:1"].exitcode == 1, what="the end of worker:1")
    assert (
        "worker:1 has 91 parts of the data and worker:0, the chief, 400, or others: data_parts "
        "must give all workers the same list"
    ) in training.log("worker:1")


@pytest.mark.long
def test_a_worker_that_is_gone_for_good_leaves_its_part_to_others(start: Start) -> None:
    training = start("between-graph", False)
    training.reach("worker:2", 30)
    training.kill("worker:2")
    del training.clients["worker:2"]
    assert _all_but_steps_that_died(training, 1)
    assert "worker:2 has not been heard of for 45 s" in training.log("worker:0")


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"data_parts": None}, "needs a program with parts"),
        ({"data_parts": []}, "parts is empty"),
        ({"data_parts": ["a", (1, 2)]}, "names and ranges"),
        ({"data_parts": [(3, 3)]}, r"the range \(3, 3\)"),
        ({"data_parts": [1.5]}, "parts has 1.5"),
        ({"input_fn": lambda params: None}, "takes no `part`"),
        (
            {"config": TrainConfig(handed_out=True, split_batch=True)},
            "does not go with split_batch",
        ),
    ],
)
def test_what_cannot_be_handed_out_is_one_sentence(
    train_here: Callable[..., Any], changes: dict[str, Any], found: str
) -> None:
    with pytest.raises(UsageError, match=found):
        train_here(replace(_handed_out(), **changes))
