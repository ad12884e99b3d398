"""The end of an asynchronous replica counts when a checkpoint has its steps: a ps that dies before
costs none of them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

WELL = {"worker:0": 0, "worker:1": 0}


def _tally(batches: int, fewer: int, *more: str, program: str = "tally") -> list[str]:
    return [
        f"toys:{program}",
        "--set",
        f"batches={batches}",
        "--set",
        f"fewer={fewer}",
        "--log-seconds",
        "0.2",
        *more,
    ]


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


# The marks of the ends are on the first ps.
@pytest.mark.parametrize("lost", ["ps:0", "ps:1"])
def test_what_a_lost_ps_had_of_a_replica_that_has_ended_is_trained_again(
    processes: Callable[..., Any], lost: str
) -> None:
    cluster = processes("between-graph", False, *_tally(3000, 2500))
    chief = _stop_chief_until_the_other_has_ended(cluster)
    cluster.kill(lost)
    cluster.serve(lost)
    os.kill(chief, signal.SIGCONT)
    assert cluster.end() == WELL
    trained = cluster.trained()
    assert trained.values["psclust/positions"].tolist() == [3000, 500]
    assert trained.step == 3500
    assert trained.values["dense"].tolist() == [3000.0, 500.0, 0.0, 0.0]
    assert trained.values["sparse"][:, 0].tolist() == [3000.0, 500.0, 0.0, 0.0]


@pytest.mark.long
@pytest.mark.parametrize("backups", [0, 1])
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("lost", ["ps:0", "ps:1"])
def test_a_ps_lost_after_a_synchronous_worker_has_left_costs_none_of_its_steps(
    processes: Callable[..., Any], lost: str, accumulate: int, backups: int
) -> None:
    how = _tally(600, 500, "--config", f"accumulate={accumulate}")
    cluster = processes(
        "between-graph", True, *how, environment={"PSCLUST_BACKUP_WORKERS": str(backups)}
    )
    wait_until(lambda: cluster.clients["worker:1"].exitcode is not None, what="the end of worker:1")
    cluster.kill(lost)
    cluster.serve(lost)
    assert cluster.end() == WELL
    trained = cluster.trained()
    assert trained.values["psclust/positions"].tolist() == [600, 100]
    if not backups:
        # Of both, then of the first alone.
        both, alone = 100 // accumulate, 500 // accumulate
        assert trained.step == both + alone
        assert trained.values["dense"].tolist() == pytest.approx(
            [both / 2 + alone, both / 2, 0.0, 0.0], rel=1e-5
        )


@pytest.mark.long
@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("lost", ["ps:0", "ps:1"])
def test_a_ps_lost_after_the_data_of_an_in_graph_worker_has_ended_costs_nothing(
    processes: Callable[..., Any], sync: bool, lost: str
) -> None:
    cluster = processes("in-graph", sync, *_tally(3000, 2900))
    cluster.reach("client:0", 400)
    cluster.kill(lost)
    cluster.serve(lost)
    assert cluster.end() == {"client:0": 0}
    trained = cluster.trained()
    assert trained.values["psclust/positions"].tolist() == [3000, 100]
    expected = [50.0 + 2900, 50.0] if sync else [3000.0, 100.0]
    assert trained.values["dense"].tolist() == pytest.approx([*expected, 0.0, 0.0], rel=1e-5)


@pytest.mark.long
def test_a_ps_lost_at_the_end_of_an_epoch_with_a_bound_and_accumulated_gradients_costs_nothing(
    processes: Callable[..., Any],
) -> None:
    how = _tally(3000, 0, "--config", "accumulate=2")
    cluster = processes("between-graph", False, *how, environment={"PSCLUST_MAX_STALENESS": "4"})
    cluster.reach("worker:1", 1)
    chief = cluster.clients["worker:0"].pid
    # Both are near the end of their data when the ps is lost.
    wait_until(
        lambda: cluster.step("worker:1") > 2800 or cluster.clients["worker:1"].exitcode is not None,
        what="the last steps",
    )
    os.kill(chief, signal.SIGSTOP)
    cluster.kill("ps:0")
    cluster.serve("ps:0")
    os.kill(chief, signal.SIGCONT)
    assert cluster.end() == WELL
    assert cluster.trained().values["psclust/positions"].tolist() == [3000, 3000]
    assert cluster.trained().values["dense"].tolist() == [1500.0, 1500.0, 0.0, 0.0]


def test_a_replica_stays_until_a_checkpoint_has_its_steps_and_they_outlive_all_ps(
    processes: Callable[..., Any], tmp_path: Path
) -> None:
    until = tmp_path / "until"
    cluster = processes(
        "between-graph", False, *_tally(600, 500, "--set", f"until={until}", program="held")
    )
    wait_until(
        lambda: (
            cluster.step("worker:0") > 0 and "has ended its training" in cluster.log("worker:1")
        ),
        what="the end of its data",
    )
    # The first replica is held in the middle of a step, so it does not look.
    assert cluster.clients["worker:1"].exitcode is None
    until.touch()
    wait_until(lambda: cluster.clients["worker:1"].exitcode is not None, what="the end of worker:1")
    assert cluster.clients["worker:1"].exitcode == 0
    assert cluster.trained().values["psclust/positions"][1] == 100
    assert json.loads((tmp_path / "model" / "ended.json").read_text())["replicas"] == [1]
    assert cluster.end() == WELL
    assert cluster.trained().values["dense"].tolist() == [600.0, 100.0, 0.0, 0.0]


def test_a_training_that_goes_on_without_a_replica_ends_with_an_error(
    train_here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    import toys
    from fork_training import Training

    from psclust.errors import PsclustError
    from psclust.train.between_graph import chief

    monkeypatch.setattr(chief, "_SILENT_S", 0.2)
    run = Training.run
    monkeypatch.setattr(
        Training, "run", lambda training: run(replace(training, contexts=training.contexts[:1]))
    )
    with pytest.raises(
        PsclustError,
        match=r"ended at step 20 without the rest of worker:1, "
        r"which did not answer\. Start it again",
    ):
        train_here(
            toys.tally.with_params({"batches": 20}), "between-graph", here=True, folder="model"
        )
    monkeypatch.undo()
    # All of it, as the second run begins where the first has ended.
    trained = train_here(toys.tally.with_params({"batches": 20}), "between-graph", folder="model")
    assert trained.values["psclust/positions"].tolist() == [20, 20]
    assert trained.step == 40
