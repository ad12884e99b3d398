"""Summaries, traces, early stopping and the NaN guard, in every replication."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nets
import numpy as np
import pytest
import tensorflow as tf
from trained import read_checkpoint
from ways import ALONE, Train, ways

import psclust
from psclust.errors import PsclustError

pytestmark = pytest.mark.tensorflow

HERE = ways(ALONE, ("in-graph", True))


def _watched(**settings: Any) -> Any:
    params = {name: settings.pop(name) for name in nets.WATCHED if name in settings}
    return nets.watched(psclust.TrainConfig(**settings), **params)


def _events(folder: Path) -> dict[str, dict[int, float]]:
    """tag -> step -> value, 0 for what is no scalar."""
    found: dict[str, dict[int, float]] = {}
    for file in sorted(folder.glob("events.*")):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


@HERE
def test_summaries_have_the_same_tags_in_a_folder_for_each_tower(
    train_here: Train, replication: str | None, sync: bool
) -> None:
    trained = train_here(_watched(summary_steps=5), replication, sync=sync)
    first = _events(trained.model_dir)
    assert {tag.removesuffix("/0") for tag in first} == {"seen", "picture/image", "loss"} | (
        {"staleness"} if replication and not sync else set()
    )
    assert set(first["seen"].values()) == {0.0}
    if sync or replication is None:
        assert sorted(first["seen"]) == [1, 5, 10, 15, 20]
    second = _events(trained.model_dir / "tower_1")
    assert set(second.get("seen", {}).values()) == (
        {1.0} if replication == "in-graph" and sync else set()
    )


@HERE
def test_chosen_steps_leave_a_chrome_trace(
    train_here: Train, replication: str | None, sync: bool
) -> None:
    trained = train_here(
        _watched(profile_steps=(3,) if sync or replication is None else tuple(range(3, 30))),
        replication,
        sync=sync,
    )
    traces = sorted(trained.model_dir.glob("trace-*.json"))
    assert traces
    if sync or replication is None:
        assert [path.name for path in traces] == ["trace-3.json"]
    assert any(event.get("ph") == "X" for event in json.loads(traces[0].read_text())["traceEvents"])


@HERE
def test_training_stops_when_the_loss_gets_no_better(
    train_here: Train, replication: str | None, sync: bool
) -> None:
    # The loss never changes: the second five steps are no better than the first.
    trained = train_here(_watched(stop_after=5, batches=20000), replication, sync=sync)
    assert (
        trained.step == pytest.approx(10, abs=2)
        if sync or replication is None
        else trained.step < 40000
    )


@HERE
def test_a_gradient_that_is_not_finite_is_named_and_not_applied(
    train_here: Train, replication: str | None, sync: bool, tmp_path: Path
) -> None:
    program = _watched(nan_guard="gradients", broken_at=8, rate=0.1)
    sentence = (
        r"step \d+: the gradient of other is not finite, and was not applied; "
        r"lower the learning rate"
    )
    with pytest.raises(PsclustError, match=sentence):
        train_here(program, replication, sync=sync, folder="broken")
    assert np.isfinite(read_checkpoint(tmp_path / "broken").values["other"])


def test_a_checkpoint_that_is_due_does_not_pass_over_values_that_are_not_finite(
    train_here: Train, tmp_path: Path
) -> None:
    # The guard looks at the loss of a step after it; a checkpoint of every step comes first.
    with pytest.raises(
        PsclustError,
        match="step 8: other has values that are not finite, and no checkpoint is written",
    ):
        train_here(_watched(broken_at=8, rate=0.1, save_steps=1), folder="broken")
    assert sorted(tmp_path.glob("broken/model.ckpt-*.index"))[-1].name == "model.ckpt-7.index"
