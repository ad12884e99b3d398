"""Steps of an in-graph training that begin while one is under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import psclust
from psclust.train import in_graph
from psclust.train.step_runs import RunsAhead

pytestmark = [pytest.mark.tensorflow, pytest.mark.process]


@pytest.fixture
def most_under_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After each step that was begun, how many were under way."""
    counts: list[int] = []

    class Counted(RunsAhead):
        def _begin(self) -> None:
            super()._begin()
            counts.append(self.under_way)

    monkeypatch.setattr(in_graph, "RunsAhead", Counted)
    return counts


def _line(**settings: Any) -> psclust.Program:
    import toys

    return replace(toys.line, config=psclust.TrainConfig(**settings))


def _checkpoint(folder: Path, step: int) -> dict[str, Any]:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(folder / f"model.ckpt-{step}"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_the_next_begins_while_one_is_under_way_and_none_after_the_last(train_here: Callable[..., Any], most_under_way: list[int]) -> None:
    trained = train_here(_line(), "in-graph", sync=True, max_steps=7, here=True)
    assert trained.step == 7
    # From the first on, parts are in order. Of the second, that is alone, psclust learns how many one has.
    assert most_under_way == [1, 1, 1, 2, 2, 2, 2]


def test_none_is_under_way_while_a_checkpoint_is_written(train_here: Callable[..., Any], most_under_way: list[int]) -> None:
    from trained import Trained, same

    trained = train_here(_line(save_steps=4, keep=9), "in-graph", sync=True, max_steps=10, folder="long", here=True)
    assert most_under_way == [1, 1, 1, 2, 1, 2, 2, 2, 1, 2]
    for step in (4, 8):
        short = train_here(_line(), "in-graph", sync=True, max_steps=step, folder=f"short-{step}")
        same(Trained(_checkpoint(trained.model_dir, step), trained.model_dir), short)


def test_hooks_have_the_time_between_two_steps_for_themselves(train_here: Callable[..., Any], most_under_way: list[int]) -> None:
    assert train_here(_line(summary_steps=3), "in-graph", sync=True, max_steps=7, here=True).step == 7
    assert most_under_way == []
