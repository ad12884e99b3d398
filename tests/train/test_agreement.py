"""Workers that build other variables than the chief, or the same in another order."""

from __future__ import annotations

import numpy as np
import pytest
import toys
import wide
from ways import Train, replications

from psclust.errors import PsclustError, UsageError
from psclust.placement.placement_settings import PlacementSettings
from psclust.placement.variable import Variable
from psclust.train.between_graph.agreement import differences

pytestmark = pytest.mark.tensorflow


@pytest.mark.long
@pytest.mark.parametrize(
    "placement",
    [
        PlacementSettings("round_robin"),
        PlacementSettings("balanced"),
        PlacementSettings("round_robin", max_shard_bytes=8),
    ],
    ids=["round robin", "balanced", "cut"],
)
def test_another_order_of_creation_is_the_same_model(
    train_here: Train, placement: PlacementSettings
) -> None:
    alone = train_here(toys.line)
    trained = train_here(toys.shuffled, "between-graph", sync=True, placement=placement)
    assert trained.step == alone.step
    np.testing.assert_allclose(trained.values["bias"], alone.values["bias"], rtol=1e-4)


@replications()
def test_functions_on_the_device_of_a_variable_train_where_the_policy_put_it(
    train_here: Train, replication: str
) -> None:
    trained = train_here(toys.conditional, replication, sync=False, workers=1)
    np.testing.assert_allclose(
        trained.values["words"], train_here(toys.conditional).values["words"], rtol=1e-4
    )


@pytest.mark.parametrize("sync", [True, False])
def test_other_variables_are_named_before_training_starts(train_here: Train, sync: bool) -> None:
    with pytest.raises(PsclustError) as caught:
        train_here(toys.shuffled.with_params({"extra": True}), "between-graph", sync=sync)
    assert str(caught.value) == (
        "worker:1 builds other variables than worker:0, the chief: extra float32 [3] is only here. "
        "model_fn must create the same variables in every worker"
    )


def test_a_variable_without_a_gradient_of_every_worker_is_named_where_a_step_would_wait_for_it(
    train_here: Train,
) -> None:
    with pytest.raises(
        PsclustError,
        match="the loss depends on bias0 in only one of worker:1 and worker:0, the chief",
    ):
        train_here(wide.program().with_params({"lazy": True}), "between-graph", sync=True)


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize(
    ("device", "found"),
    [
        (None, "table, only_here on no device. Create"),
        ("/job:worker/task:1", "table on /job:worker/task:1; only_here on no device. Create"),
        ("/cpu:0", "only_here on no device. Create"),
    ],
)
def test_variables_that_are_on_no_ps_are_named_at_once(
    train_here: Train, sync: bool, device: str | None, found: str
) -> None:
    program = toys.unshared.with_params({"device": device})
    with pytest.raises(UsageError, match=f"the workers share are not on a ps: {found}"):
        train_here(program, "between-graph", sync=sync)


def test_one_worker_alone_may_have_its_variables_where_it_likes(
    train_here: Train,
) -> None:
    assert train_here(toys.unshared, "between-graph", sync=True, workers=1).step == 9


def test_both_sides_of_every_kind_of_difference_are_shown() -> None:
    mine = {"a": Variable("a", (2,)), "b": Variable("b", (3,)), "c": Variable("c", (4,))}
    theirs = {"a": Variable("a", (2,)), "b": Variable("b", (3, 1), "float64")} | {
        f"d{i}": Variable(f"d{i}", ()) for i in range(7)
    }
    assert differences(mine, theirs, "chief:0") == [
        "b is float32 [3] here and float64 [3, 1] on chief:0",
        "c float32 [4] is only here",
        *(f"d{i} float32 [] is only on chief:0" for i in range(5)),
        "and 2 more like it",
    ]
