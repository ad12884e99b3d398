"""Variables too large for a bucket, which come back while gradients of others leave: the same
weights as those of one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ml_dtypes import bfloat16
from trained import same

from psclust.placement.placement_settings import PlacementSettings

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("replication", "sync", "workers"),
    [
        ("in-graph", True, 2),
        # One worker alone makes the updates of one process, in their order.
        ("between-graph", False, 1),
        pytest.param("in-graph", False, 1, marks=pytest.mark.long),
        pytest.param("between-graph", True, 2, marks=pytest.mark.long),
    ],
)
def test_they_get_the_values_of_one_process(
    train_here: Callable[..., Any], replication: str, sync: bool, workers: int
) -> None:
    import deep

    same(
        train_here(deep.program()),
        train_here(deep.program(), replication, sync=sync, workers=workers),
    )


@pytest.mark.parametrize(
    ("replication", "wire_dtype", "largest"),
    [
        # Of 32 or 34 kB: some are small, which travel together and so in another order, and some
        # are not.
        ("in-graph", "float32", 34_000),
        ("in-graph", "int8", 34_000),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("between-graph", "float32", 34_000),
                ("in-graph", "float32", 20_000),
                ("between-graph", "int8", 20_000),
            )
        ),
    ],
)
def test_shards_that_are_read_as_a_whole_are_in_the_order_of_their_rows(
    train_here: Callable[..., Any], replication: str, wire_dtype: str, largest: int
) -> None:
    import wide

    program, cut = (
        wide.program(wire_dtype=wire_dtype).with_params({"steps": 5}),
        PlacementSettings("balanced", max_shard_bytes=largest),
    )
    alone = train_here(wide.program().with_params({"steps": 5}))
    same(
        alone,
        train_here(program, replication, sync=True, placement=cut),
        rtol=1e-4 if wire_dtype == "float32" else 0.1,
    )


@pytest.mark.long
@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_as_bfloat16_they_travel_with_its_error_and_are_kept_without(
    train_here: Callable[..., Any], replication: str
) -> None:
    import deep

    sync = replication == "in-graph"
    trained = train_here(
        deep.program(wire_dtype="bfloat16"), replication, sync=sync, workers=2 if sync else 1
    )
    same(train_here(deep.program()), trained, rtol=0.05)
    # Variables and checkpoints keep all their digits.
    layer = trained.values["layer0"]
    assert (layer != layer.astype(bfloat16).astype("float32")).mean() > 0.9


@pytest.mark.long
def test_a_training_goes_on_with_its_copies_where_it_was(train_here: Callable[..., Any]) -> None:
    import deep

    train_here(deep.program(), "in-graph", sync=True, folder="model", max_steps=8)
    same(
        train_here(deep.program()),
        train_here(deep.program(), "in-graph", sync=True, folder="model"),
    )
