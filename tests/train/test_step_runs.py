"""Steps that begin while one is under way: of an in-graph training, and of synchronous replicas
whose steps are streamed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import psclust
from psclust.testing.wait import wait_until
from psclust.train import in_graph
from psclust.train.step_runs import RunsAhead
from psclust.train.sync import participant

pytestmark = [pytest.mark.tensorflow, pytest.mark.process]


@pytest.fixture
def most_under_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After each step that was begun, how many were under way."""
    counts: list[int] = []

    class Counted(RunsAhead):
        def _begin(self, feeds: Sequence[Any]) -> None:
            super()._begin(feeds)
            counts.append(self.under_way)

    monkeypatch.setattr(in_graph, "RunsAhead", Counted)
    monkeypatch.setattr(participant, "RunsAhead", Counted)
    return counts


def _line(**settings: Any) -> psclust.Program:
    import toys

    return replace(toys.line, config=psclust.TrainConfig(**settings))


def _checkpoint(folder: Path, step: int) -> dict[str, Any]:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(folder / f"model.ckpt-{step}"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_the_next_begins_while_one_is_under_way_and_none_after_the_last(
    train_here: Callable[..., Any], most_under_way: list[int]
) -> None:
    trained = train_here(_line(), "in-graph", sync=True, max_steps=7, here=True)
    assert trained.step == 7
    # From the first on, parts are in order. Of the second, that is alone, psclust learns how many
    # one has.
    assert most_under_way == [1, 1, 1, 2, 2, 2, 2]


def test_none_is_under_way_while_a_checkpoint_is_written(
    train_here: Callable[..., Any], most_under_way: list[int]
) -> None:
    from trained import Trained, same

    trained = train_here(
        _line(save_steps=4, keep=9), "in-graph", sync=True, max_steps=10, folder="long", here=True
    )
    assert most_under_way == [1, 1, 1, 2, 1, 2, 2, 2, 1, 2]
    for step in (4, 8):
        short = train_here(_line(), "in-graph", sync=True, max_steps=step, folder=f"short-{step}")
        same(Trained(_checkpoint(trained.model_dir, step), trained.model_dir), short)


def test_hooks_have_the_time_between_two_steps_for_themselves(
    train_here: Callable[..., Any], most_under_way: list[int]
) -> None:
    assert (
        train_here(_line(summary_steps=3), "in-graph", sync=True, max_steps=7, here=True).step == 7
    )
    assert most_under_way == []


def test_replicas_begin_the_next_before_they_have_a_token_for_it(
    train_here: Callable[..., Any], most_under_way: list[int]
) -> None:
    import wide
    from trained import same

    trained = train_here(wide.program(), "between-graph", sync=True, max_steps=12, here=True)
    # The chief knows which is the last. The other replica begins one more, for which it gets no
    # token.
    assert sorted(most_under_way)[-13:] == [2] * 13
    assert max(most_under_way) == 2
    same(train_here(wide.program(), max_steps=12), trained)


def test_a_checkpoint_of_replicas_is_of_one_step(
    train_here: Callable[..., Any], most_under_way: list[int]
) -> None:
    import wide
    from trained import Trained, same

    trained = train_here(
        wide.program(save_steps=6, keep=9),
        "between-graph",
        sync=True,
        max_steps=14,
        folder="long",
        here=True,
    )
    assert 2 in most_under_way
    for step in (6, 12):
        short = train_here(wide.program(), max_steps=step, folder=f"short-{step}")
        same(Trained(_checkpoint(trained.model_dir, step), trained.model_dir), short)


def test_a_replica_with_hooks_begins_none_before_the_one_before_has_ended(
    train_here: Callable[..., Any], most_under_way: list[int]
) -> None:
    import wide

    program = wide.program().with_params({"stop_at": 7})
    assert train_here(program, "between-graph", sync=True, here=True).step == 7
    assert most_under_way == []


def test_a_client_that_fails_does_not_wait_for_the_step_that_it_has_begun(
    processes: Callable[..., Any],
) -> None:
    import stuck

    cluster = processes("between-graph", True, "stuck:program")
    chief, other = cluster.clients["worker:0"], cluster.clients["worker:1"]
    wait_until(lambda: chief.exitcode is not None, what="the end of the chief")
    assert (chief.exitcode, other.exitcode) == (1, None)
    assert f"step {stuck.BAD}: the loss is nan" in cluster.log("worker:0")
