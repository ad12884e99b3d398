"""Variables too large for a bucket, which come back while gradients of others leave: the same
weights as those of one process."""

from __future__ import annotations

import pytest
import wide
from trained import same
from ways import Train

from beds.tiers import longer
from psclust.placement.placement_settings import PlacementSettings

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("replication", "sync", "workers"),
    [
        ("in-graph", True, 2),
        # One worker alone makes the updates of one process, in their order.
        ("between-graph", False, 1),
        *longer(("in-graph", False, 1), ("between-graph", True, 2)),
    ],
)
def test_they_get_the_values_of_one_process(
    train_here: Train, replication: str, sync: bool, workers: int
) -> None:
    trained = train_here(wide.small(), replication, sync=sync, workers=workers)
    same(train_here(wide.small()), trained)


@pytest.mark.long
@pytest.mark.parametrize(
    ("replication", "wire_dtype", "largest"),
    [
        # Of 32 or 34 kB: some are small, which travel together and so in another order, and some
        # are not.
        ("in-graph", "float32", 34_000),
        ("in-graph", "int8", 34_000),
        ("between-graph", "float32", 34_000),
        ("in-graph", "float32", 20_000),
        ("between-graph", "int8", 20_000),
    ],
)
def test_shards_that_are_read_as_a_whole_are_in_the_order_of_their_rows(
    train_here: Train, replication: str, wire_dtype: str, largest: int
) -> None:
    program, steps = wide.program(wire_dtype=wire_dtype), {"steps": 5}
    cut = PlacementSettings("balanced", max_shard_bytes=largest)
    trained = train_here(program.with_params(steps), replication, sync=True, placement=cut)
    alone = train_here(wide.program().with_params(steps))
    same(alone, trained, rtol=1e-4 if wire_dtype == "float32" else 0.1)
