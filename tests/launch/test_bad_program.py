"""A worker of a synchronous cluster that fails ends the run with its sentence, although all others
wait for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beds.command import CommandBed, typed

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

TRAIN_TESTS = Path(__file__).parents[1] / "train"


@pytest.mark.long
@pytest.mark.parametrize(
    ("mistake", "waiting", "sentence"),
    [
        ("nan_at=12", "--backup-workers 0", "the loss is nan"),
        (
            "batches=2",
            "--backup-workers 1",
            "the input of worker:2 has no batch at all",
        ),
    ],
)
def test_a_mistake_of_one_worker_ends_the_run(
    bed: CommandBed, mistake: str, waiting: str, sentence: str
) -> None:
    bed.environ["PYTHONPATH"] = f"{TRAIN_TESTS}:{os.environ.get('PYTHONPATH', '')}"
    up = bed.start(
        *typed(f"up --ps 1 --workers 3 --sync {waiting} bad_inputs:program --set {mistake}")
    )
    assert up.wait(300) != 0
    assert sentence in up.output
    assert "Traceback" not in up.output
