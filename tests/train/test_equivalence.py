"""The law of the house: the same data gives the same weights, whatever the replication."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import toys

pytestmark = pytest.mark.tensorflow

MODEL = ("weights", "words", "bias")


def _same(one: Any, other: Any) -> None:
    for name in (name for name in one.values if name.startswith(MODEL)):
        np.testing.assert_allclose(other.values[name], one.values[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("optimizer", ["GradientDescentOptimizer", "MomentumOptimizer"])
def test_towers_workers_and_one_process_give_the_same_weights(train_here: Callable[..., Any], optimizer: str) -> None:
    # 100 points in batches of 12 end in a batch of 4: two replicas split it into 2 and 2.
    program = toys.line.with_params({"optimizer": optimizer})
    alone = train_here(program)
    assert alone.step == 9
    assert not np.allclose(alone.values["weights"], 0.0)
    _same(alone, train_here(program, "in-graph", sync=True))
    _same(alone, train_here(program, "between-graph", sync=True))


def test_an_uneven_last_batch_is_weighted_by_its_examples(train_here: Callable[..., Any]) -> None:
    # The ninth batch has 4 points for three replicas: 2, 1 and 1. Four replicas of 101 points end with 2, 1, 1 and 1 too, in a ninth batch.
    program = toys.line
    alone = train_here(program)
    _same(alone, train_here(program, "in-graph", sync=True, workers=3))
    _same(alone, train_here(program, "between-graph", sync=True, workers=3))


def test_a_replica_with_less_data_ends_first_and_the_others_go_on(train_here: Callable[..., Any]) -> None:
    # 97 points in batches of 12: the first replica of two has 49 points, nine batches, the second 48, eight batches.
    program = toys.line.with_params({"points": 97})
    alone = train_here(program)
    assert alone.step == 9
    in_graph = train_here(program, "in-graph", sync=True)
    between = train_here(program, "between-graph", sync=True)
    _same(alone, in_graph)
    _same(alone, between)
    assert in_graph.values["psclust/positions"].tolist() == between.values["psclust/positions"].tolist() == [9, 8]
