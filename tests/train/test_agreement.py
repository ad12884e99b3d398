"""Workers that build other variables than the chief, or the same in another order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from psclust.errors import PsclustError
from psclust.placement.policy import Policy
from psclust.placement.variable import Variable

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("policy", [Policy(), Policy("balanced"), Policy(max_shard_bytes=8)], ids=["round robin", "balanced", "cut"])
def test_another_order_of_creation_is_the_same_model(train_here: Callable[..., Any], policy: Policy) -> None:
    import toys

    alone = train_here(toys.line)
    trained = train_here(toys.shuffled, "between-graph", sync=True, policy=policy)
    assert trained.step == alone.step
    np.testing.assert_allclose(trained.values["bias"], alone.values["bias"], rtol=1e-5)


@pytest.mark.parametrize("sync", [True, False])
def test_other_variables_are_named_before_training_starts(train_here: Callable[..., Any], sync: bool) -> None:
    import toys

    with pytest.raises(PsclustError) as caught:
        train_here(toys.shuffled.with_params({"extra": True}), "between-graph", sync=sync)
    assert str(caught.value) == (
        "worker:1 builds other variables than worker:0, the chief: extra float32 [3] is only here. "
        "model_fn must create the same variables in every worker"
    )


def test_both_sides_of_every_kind_of_difference_are_shown() -> None:
    from psclust.train.agreement import differences

    mine = {"a": Variable("a", (2,)), "b": Variable("b", (3,)), "c": Variable("c", (4,))}
    theirs = {"a": Variable("a", (2,)), "b": Variable("b", (3, 1), "float64")} | {f"d{i}": Variable(f"d{i}", ()) for i in range(7)}
    assert differences(mine, theirs, "chief:0") == [
        "b is float32 [3] here and float64 [3, 1] on chief:0",
        "c float32 [4] is only here",
        *(f"d{i} float32 [] is only on chief:0" for i in range(5)),
        "and 2 more like it",
    ]
