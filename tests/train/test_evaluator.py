"""The evaluator: every checkpoint is evaluated while others train."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ways import Start

from psclust.testing.wait import wait_until
from psclust.train.offline.evaluator import mark_training, training_ended

pytestmark = [pytest.mark.tensorflow, pytest.mark.process]


def _results(folder: Path) -> list[dict[str, Any]]:
    path = folder / "model" / "evaluations.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_an_evaluator_follows_a_training_and_ends_after_it(processes: Start) -> None:
    slow = ["toys:slow_line", "--config", "save_steps=5", "--set", "points=400"]
    cluster = processes("between-graph", False, *slow, worker=1)
    cluster.start("evaluator:0")
    wait_until(lambda: _results(cluster.folder), what="a first evaluation")
    assert cluster.clients["worker:0"].exitcode is None
    # One that dies and comes back evaluates nothing twice.
    cluster.kill("evaluator:0")
    cluster.start("evaluator:0")
    assert cluster.end() == {"worker:0": 0, "evaluator:0": 0}
    results = _results(cluster.folder)
    steps = [result["step"] for result in results]
    assert steps == sorted(set(steps))
    assert steps[-1] == cluster.trained().step
    best = json.loads((cluster.folder / "model" / "best" / "evaluation.json").read_text())
    assert best["metrics"]["loss"] == min(result["metrics"]["loss"] for result in results)
    kept = (cluster.folder / "model" / "best" / "checkpoint").read_text()
    assert f'model_checkpoint_path: "model.ckpt-{best["step"]}"' in kept
    assert "; the best: evaluation: error" in cluster.log("evaluator:0")


def test_the_mark_of_another_run_does_not_end_an_evaluator(tmp_path: Path) -> None:
    mark_training(tmp_path, "one", 5)
    assert training_ended(tmp_path, "one")
    assert not training_ended(tmp_path, "two")
    mark_training(tmp_path, "two", None)
    assert not training_ended(tmp_path, "one")
