"""Variables cut into shards and placed by bytes are trained as if they were whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from psclust.placement.policy import Policy

pytestmark = pytest.mark.tensorflow

# The weights are 8 bytes, the table of words 20, the tally's variables 16 each.
CUT = Policy("balanced", max_shard_bytes=8)


def whole(trained: Any, name: str) -> Any:
    """The value of a variable, put together where it was cut."""
    parts = sorted(
        (key for key in trained.values if key.startswith(f"{name}/part_") and key.count("/") == 1), key=lambda key: (len(key), key)
    )
    return np.concatenate([trained.values[key] for key in parts]) if parts else trained.values[name]


@pytest.mark.parametrize("optimizer", ["MomentumOptimizer", "AdamOptimizer"])
def test_a_model_in_shards_is_the_same_model(train_here: Callable[..., Any], optimizer: str) -> None:
    import toys

    program = toys.line.with_params({"optimizer": optimizer})
    alone = train_here(program)
    for replication in ("in-graph", "between-graph"):
        cut = train_here(program, replication, sync=True, policy=CUT)
        assert [key for key in cut.values if key.startswith("words/part_") and key.count("/") == 1] != []
        for name in ("weights", "words", "bias"):
            np.testing.assert_allclose(whole(cut, name), alone.values[name], rtol=1e-5, atol=1e-6, err_msg=f"{replication} {name}")


@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
@pytest.mark.parametrize("sync", [True, False])
def test_every_gradient_of_a_shard_counts_once(train_here: Callable[..., Any], replication: str, sync: bool) -> None:
    import toys

    trained = train_here(toys.tally, replication, sync=sync, policy=CUT)
    each = 50.0 if sync else 100.0
    assert whole(trained, "dense").tolist() == [each, each, 0.0, 0.0]
    assert whole(trained, "sparse")[:, 0].tolist() == [each, each, 0.0, 0.0]
    assert "dense/part_1" in trained.values
