"""The wide-and-deep example in its three modes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# TensorFlow's own, of its own linear model.
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated"),
]


def test_it_is_trained_evaluated_and_predicts(
    train_example: Callable[..., Any], tmp_path: Path
) -> None:
    from psclust.examples.wide_deep import patients, program

    metrics = train_example("wide_deep")
    # Half of the patients are in either class.
    assert metrics["accuracy"] >= 0.68
    assert metrics["auc"] >= 0.75
    rows = list(program.predict(tmp_path / "model"))
    _, further = patients(held_out=True)
    assert len(rows) == len(further)
    assert sum(row["further"] == right for row, right in zip(rows, further, strict=True)) / len(
        rows
    ) == pytest.approx(metrics["accuracy"])
    assert all((row["probability"] > 0.5) == bool(row["further"]) for row in rows)


@pytest.mark.process
@pytest.mark.long
def test_asynchronous_towers_learn_without_a_page_of_deprecations(
    up_example: Callable[..., Any],
) -> None:
    ran = up_example("wide-deep")
    assert ran.metrics["accuracy"] >= 0.63
    assert "deprecated" not in ran.said
