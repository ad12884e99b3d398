"""Variables cut into shards and placed by bytes are trained as if they were whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psclust.placement.placement_settings import PlacementSettings

pytestmark = pytest.mark.tensorflow

# The weights are 8 bytes, the table of words 20, the tally's variables 16 each.
CUT = PlacementSettings("balanced", max_shard_bytes=8)


@pytest.mark.parametrize(
    "optimizer", [pytest.param("MomentumOptimizer", marks=pytest.mark.long), "AdamOptimizer"]
)
def test_a_model_in_shards_is_the_same_model(
    train_here: Callable[..., Any], optimizer: str
) -> None:
    import toys

    program = toys.line.with_params({"optimizer": optimizer})
    alone = train_here(program)
    for replication in ("in-graph", "between-graph"):
        cut = train_here(program, replication, sync=True, placement=CUT)
        for name in ("weights", "words", "bias"):
            np.testing.assert_allclose(
                cut.values[name],
                alone.values[name],
                rtol=1e-4,
                atol=1e-6,
                err_msg=f"{replication} {name}",
            )


@pytest.mark.long
@pytest.mark.parametrize(
    ("replication", "sync"),
    [
        ("between-graph", True),
        *(
            pytest.param(*how, marks=pytest.mark.long)
            for how in (("in-graph", False), ("in-graph", True), ("between-graph", False))
        ),
    ],
)
def test_every_gradient_of_a_shard_counts_once(
    train_here: Callable[..., Any], replication: str, sync: bool
) -> None:
    import toys

    trained = train_here(toys.tally, replication, sync=sync, placement=CUT)
    each = 50.0 if sync else 100.0
    assert trained.values["dense"].tolist() == [each, each, 0.0, 0.0]
    assert trained.values["sparse"][:, 0].tolist() == [each, each, 0.0, 0.0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (CUT, PlacementSettings(max_shard_bytes=4)),
        *(
            pytest.param(*how, marks=pytest.mark.long)
            for how in ((CUT, PlacementSettings()), (PlacementSettings(), CUT))
        ),
    ],
    ids=str,
)
def test_a_training_goes_on_with_other_cuts_and_another_placement(
    train_here: Callable[..., Any], first: PlacementSettings, then: PlacementSettings
) -> None:
    import toys

    train_here(toys.tally, "in-graph", sync=True, placement=first, max_steps=30, folder="model")
    trained = train_here(
        toys.tally, "between-graph", sync=True, ps=3, placement=then, folder="model"
    )
    assert trained.step == 100
    assert (
        trained.values["dense"].tolist()
        == trained.values["sparse"][:, 0].tolist()
        == [50.0, 50.0, 0.0, 0.0]
    )


@pytest.mark.long
def test_moving_averages_of_shards_are_those_of_the_whole_and_are_evaluated(
    train_here: Callable[..., Any],
) -> None:
    import toys

    import psclust

    program = replace(toys.line, config=psclust.TrainConfig(average_decay=0.9))
    alone = train_here(program)
    cut = train_here(program, "between-graph", sync=True, placement=CUT)
    averages = {name for name in alone.values if name.endswith("/ExponentialMovingAverage")}
    assert averages == {f"{name}/ExponentialMovingAverage" for name in ("weights", "words", "bias")}
    for name in averages:
        np.testing.assert_allclose(
            cut.values[name], alone.values[name], rtol=1e-4, atol=1e-6, err_msg=name
        )
        assert not np.allclose(alone.values[name], alone.values[name.rpartition("/")[0]], rtol=1e-3)
    evaluated = {
        folder: program.evaluate(folder).scalars()["loss"]
        for folder in (cut.model_dir, alone.model_dir)
    }
    assert evaluated[cut.model_dir] == pytest.approx(evaluated[alone.model_dir], rel=1e-4)
    assert evaluated[alone.model_dir] != pytest.approx(
        toys.line.evaluate(alone.model_dir).scalars()["loss"], rel=1e-3
    )
