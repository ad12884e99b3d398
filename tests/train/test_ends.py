"""The end of an asynchronous replica counts when a checkpoint has its steps: a ps that dies before
costs none of them."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import toys
from fork_training import Training
from ways import Start, Train

from psclust.errors import PsclustError
from psclust.testing.wait import wait_until
from psclust.train.between_graph import chief

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


def _stop_chief_until_the_other_has_ended(cluster: Any) -> int:
    cluster.reach("worker:1", 1)
    cluster.reach("worker:0", 1)
    chief = cluster.clients["worker:0"].pid
    os.kill(chief, signal.SIGSTOP)
    wait_until(
        lambda: "worker:1 has ended its training" in cluster.log("worker:1"),
        what="the end of worker:1's data",
    )
    return int(chief)


@pytest.mark.long
# The marks of the ends are on the first ps.
@pytest.mark.parametrize("lost", ["ps:0", "ps:1"])
def test_what_a_lost_ps_had_of_a_replica_that_has_ended_is_trained_again(
    processes: Start, lost: str
) -> None:
    data = {"batches": 3000, "fewer": 2500}
    cluster = processes("between-graph", False, "toys:tally", log_seconds=0.2, **data)
    chief = _stop_chief_until_the_other_has_ended(cluster)
    cluster.replace(lost)
    os.kill(chief, signal.SIGCONT)
    trained = cluster.end_well()
    assert (trained.step, trained.positions) == (3500, [3000, 500])
    assert trained.tally == [3000.0, 500.0, 0.0, 0.0]


@pytest.mark.long
@pytest.mark.parametrize("backups", [0, 1])
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("lost", ["ps:0", "ps:1"])
def test_a_ps_lost_after_a_synchronous_worker_has_left_costs_none_of_its_steps(
    processes: Start, lost: str, accumulate: int, backups: int
) -> None:
    words = ["toys:tally", "--config", f"accumulate={accumulate}"]
    environment = {"PSCLUST_BACKUP_WORKERS": str(backups)}
    data = {"batches": 600, "fewer": 500, "log_seconds": 0.2}
    cluster = processes("between-graph", True, *words, environment=environment, **data)
    wait_until(lambda: cluster.clients["worker:1"].exitcode is not None, what="the end of worker:1")
    cluster.replace(lost)
    trained = cluster.end_well()
    assert trained.positions == [600, 100]
    if not backups:
        # Of both, then of the first alone.
        both, alone = 100 // accumulate, 500 // accumulate
        assert trained.step == both + alone
        assert trained.tally == pytest.approx([both / 2 + alone, both / 2, 0.0, 0.0], rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("lost", ["ps:0", "ps:1"])
def test_a_ps_lost_after_the_data_of_an_in_graph_worker_has_ended_costs_nothing(
    processes: Start, sync: bool, lost: str
) -> None:
    data = {"batches": 3000, "fewer": 2900}
    cluster = processes("in-graph", sync, "toys:tally", log_seconds=0.2, **data)
    cluster.reach("client:0", 400)
    cluster.replace(lost)
    trained = cluster.end_well()
    assert trained.positions == [3000, 100]
    expected = [50.0 + 2900, 50.0] if sync else [3000.0, 100.0]
    assert trained.tally == pytest.approx([*expected, 0.0, 0.0], rel=1e-5)


@pytest.mark.long
def test_a_ps_lost_at_the_end_of_an_epoch_with_a_bound_and_accumulated_gradients_costs_nothing(
    processes: Start,
) -> None:
    words = ["toys:tally", "--config", "accumulate=2"]
    bound, data = {"PSCLUST_MAX_STALENESS": "4"}, {"batches": 3000, "log_seconds": 0.2}
    cluster = processes("between-graph", False, *words, environment=bound, **data)
    cluster.reach("worker:1", 1)
    chief = cluster.clients["worker:0"].pid
    # Both are near the end of their data when the ps is lost.
    wait_until(
        lambda: cluster.step("worker:1") > 2800 or cluster.clients["worker:1"].exitcode is not None,
        what="the last steps",
    )
    os.kill(chief, signal.SIGSTOP)
    cluster.replace("ps:0")
    os.kill(chief, signal.SIGCONT)
    trained = cluster.end_well()
    assert (trained.positions, trained.tally) == ([3000, 3000], [1500.0, 1500.0, 0.0, 0.0])


def test_a_replica_stays_until_a_checkpoint_has_its_steps_and_they_outlive_all_ps(
    processes: Start, tmp_path: Path
) -> None:
    until = tmp_path / "until"
    data = {"batches": 600, "fewer": 500, "until": until}
    cluster = processes("between-graph", False, "toys:held", log_seconds=0.2, **data)
    cluster.reach("worker:0", 1)
    wait_until(
        lambda: "has ended its training" in cluster.log("worker:1"), what="the end of its data"
    )
    # The first replica is held in the middle of a step, so it does not look.
    assert cluster.clients["worker:1"].exitcode is None
    until.touch()
    wait_until(lambda: cluster.clients["worker:1"].exitcode is not None, what="the end of worker:1")
    assert cluster.clients["worker:1"].exitcode == 0
    assert cluster.trained().positions[1] == 100
    assert json.loads((tmp_path / "model" / "ended.json").read_text())["replicas"] == [1]
    assert cluster.end_well().tally == [600.0, 100.0, 0.0, 0.0]


def test_a_training_that_goes_on_without_a_replica_ends_with_an_error(
    train_here: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chief, "_SILENT_S", 0.2)
    run = Training.run
    monkeypatch.setattr(
        Training, "run", lambda training: run(replace(training, contexts=training.contexts[:1]))
    )
    program = toys.tally.with_params({"batches": 20})
    with pytest.raises(
        PsclustError,
        match=r"ended at step 20 without the rest of worker:1, "
        r"which did not answer\. Start it again",
    ):
        train_here(program, "between-graph", here=True, folder="model")
    monkeypatch.undo()
    # All of it, as the second run begins where the first has ended.
    trained = train_here(program, "between-graph", folder="model")
    assert (trained.step, trained.positions) == (40, [20, 20])
