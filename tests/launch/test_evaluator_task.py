"""An evaluator in a cluster file, beside a training."""

from __future__ import annotations

import json

import pytest

from beds.command import CommandBed

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

CLUSTER = """
name: watched
jobs:
  ps: 1
  worker: 1
  evaluator: 1
program: [psclust.examples.digits:program, --config, save_steps=20, --set, epochs=2]
"""


def test_an_evaluator_has_evaluated_the_last_checkpoint_when_the_run_ends(bed: CommandBed) -> None:
    (bed.folder / "watched.yaml").write_text(CLUSTER)
    said = bed.done("up", "-f", "watched.yaml", "--replication", "in-graph")
    assert "ended well" in said
    assert "was stopped" not in said
    (results,) = bed.state.rglob("evaluations.jsonl")
    steps = [json.loads(line)["step"] for line in results.read_text().splitlines()]
    assert steps[-1] == json.loads((results.parent / "evaluation.json").read_text())["step"]
