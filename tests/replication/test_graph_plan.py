"""What a replicated graph consists of, decided without TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest

from psclust.errors import UsageError
from psclust.replication.device_layout import LOCAL, DeviceLayout
from psclust.replication.graph_plan import (
    InGraphPlan,
    one_way,
    one_way_in_step,
    plan_between_graph,
    plan_in_graph,
)
from psclust.replication.towers.tower_kind import TowerKind
from psclust.train.config import TrainConfig

CLIENT = "/job:client/task:0"
WORKERS = ("/job:worker/task:0", "/job:worker/task:1")
CLUSTER = DeviceLayout(2, WORKERS, CLIENT)
GPUS = DeviceLayout(2, WORKERS, WORKERS[1], devices=("/device:GPU:0", "/device:GPU:1"))
ONE_WORKER = DeviceLayout(1, WORKERS[:1], WORKERS[0], devices=GPUS.devices)
SHARED: dict[str, Any] = {"moving_statistics": "sync"}
AVERAGED: dict[str, Any] = {"moving_statistics": "mean", "statistics_every": 5}


def test_one_process_with_one_device_is_a_tower_that_updates_by_itself() -> None:
    assert plan_in_graph(TrainConfig(), LOCAL, sync=True) == InGraphPlan(
        ("",),
        combined=False,
        split_on=None,
        padded=False,
        share_moments=False,
        own_statistics=False,
        bare=False,
        train_op=True,
        copies=True,
    )


@pytest.mark.parametrize(
    ("config", "sync", "changed"),
    [
        ({}, True, {"combined", "padded"}),
        ({}, False, set()),
        ({"drop_uneven": True}, True, {"combined"}),
        ({"split_batch": True}, True, {"combined", "split_on"}),
        (SHARED, True, {"combined", "padded", "share_moments"}),
        (AVERAGED, True, {"combined", "padded", "own_statistics"}),
        ({"moving_statistics": "first", "statistics_every": 5}, False, set()),
    ],
)
def test_what_the_settings_change_in_graph(
    config: dict[str, Any], sync: bool, changed: set[str]
) -> None:
    flags: dict[str, Any] = {
        name: name in changed for name in ("combined", "padded", "share_moments", "own_statistics")
    }
    flags["split_on"] = CLIENT if "split_on" in changed else None
    wanted = InGraphPlan(WORKERS, **flags, bare=True, train_op=False, copies=True)
    assert plan_in_graph(TrainConfig(**config), CLUSTER, sync=sync) == wanted


@pytest.mark.parametrize(
    ("config", "layout", "backups", "inputs", "flags"),
    [
        # Flags: needed, split, padded, towers_padded, share_moments.
        ({}, CLUSTER, 0, 1, (None, False, False, True, False)),
        ({}, CLUSTER, 1, 1, (1, False, False, True, False)),
        ({}, GPUS, 0, 2, (None, False, False, True, False)),
        ({"split_batch": True}, GPUS, 0, 1, (None, True, False, False, False)),
        ({"drop_uneven": True}, GPUS, 0, 2, (None, False, False, False, False)),
        (SHARED, GPUS, 0, 2, (None, False, True, True, True)),
        ({**SHARED, "split_batch": True}, GPUS, 0, 1, (None, True, True, True, True)),
        # The moments of one worker's towers need no other worker.
        (SHARED, ONE_WORKER, 0, 2, (None, False, False, True, True)),
    ],
)
def test_what_the_settings_change_between_graph(
    config: dict[str, Any], layout: DeviceLayout, backups: int, inputs: int, flags: tuple[Any, ...]
) -> None:
    plan = plan_between_graph(TrainConfig(**config), layout, 0, sync=True, backups=backups)
    assert (plan.needed, plan.split, plan.padded, plan.towers_padded, plan.share_moments) == flags
    assert plan.inputs == inputs


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, None),
        ({"clip_norm": 3}, "clip_norm=3"),
        ({"nan_guard": "gradients"}, "nan_guard=gradients"),
        ({"local_copies": False}, "local_"),
    ],
)
def test_what_keeps_variables_from_coming_back_one_by_one_is_named(
    config: dict[str, Any], named: str | None
) -> None:
    found = one_way(TrainConfig(**config))
    assert found is None if named is None else str(found).startswith(named)
    assert plan_in_graph(TrainConfig(**config), CLUSTER, sync=True).copies == (named is None)
    for sync in (False, True):
        plan = plan_between_graph(TrainConfig(**config), CLUSTER, 0, sync=sync)
        assert plan.copies == (named is None)


def test_synchronous_workers_pull_first_where_a_step_goes_on_without_some_of_them() -> None:
    shared = TrainConfig(moving_statistics="sync")
    assert not plan_between_graph(TrainConfig(), CLUSTER, 0, sync=True, backups=1).copies
    assert not plan_between_graph(shared, CLUSTER, 0, sync=True).copies
    assert one_way_in_step(shared) == "moving_statistics=sync"
    assert one_way_in_step(TrainConfig()) is None


def test_a_worker_has_a_tower_on_each_of_its_devices() -> None:
    plan = plan_between_graph(TrainConfig(), GPUS, 1, sync=False)
    assert plan.towers == ("/job:worker/task:1/device:GPU:0", "/job:worker/task:1/device:GPU:1")


NO_COMMON_BATCH = "asynchronous replicas have no batch in common"
NO_TOWERS = "it needs in-graph synchronous replication"


@pytest.mark.parametrize(
    ("config", "layout", "sync", "message"),
    [
        ({}, DeviceLayout(1, (), CLIENT), True, "at least one worker"),
        ({}, DeviceLayout(0, WORKERS, CLIENT), True, "at least one ps"),
        ({"split_batch": True}, CLUSTER, False, "the towers of an asynchronous in-graph training"),
        (SHARED, CLUSTER, False, NO_COMMON_BATCH),
        ({**SHARED, "accumulate": 2}, CLUSTER, True, "accumulate=2 computes them one after"),
        (AVERAGED, CLUSTER, False, NO_TOWERS),
    ],
)
def test_in_graph_what_cannot_work_is_refused(
    config: dict[str, Any], layout: DeviceLayout, sync: bool, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_in_graph(TrainConfig(**config), layout, sync=sync)


@pytest.mark.parametrize(
    ("config", "ps", "sync", "backups", "message"),
    [
        ({}, 0, True, 0, "at least one ps"),
        ({}, 1, False, 1, "backup_workers is for synchronous training"),
        ({}, 1, True, 2, "of 2 workers leave no gradient to wait for; lower backup_workers to 1"),
        (SHARED, 1, True, 1, "backup_workers goes on without the last ones"),
        (SHARED, 1, False, 0, NO_COMMON_BATCH),
        (AVERAGED, 1, True, 0, NO_TOWERS),
    ],
)
def test_between_graph_what_cannot_work_is_refused(
    config: dict[str, Any], ps: int, sync: bool, backups: int, message: str
) -> None:
    layout = DeviceLayout(ps, WORKERS, WORKERS[0])
    with pytest.raises(UsageError, match=message):
        plan_between_graph(TrainConfig(**config), layout, 0, sync=sync, backups=backups)


# ---- the four places that build towers, and the batches that one of them accumulates


def test_a_tower_alone_needs_nothing_special() -> None:
    assert TowerKind.alone() == TowerKind(
        reuse=False, weighted=False, maybe_empty=False, bare=False, all_reduce=None
    )


def test_in_graph_all_but_the_first_tower_share_its_variables() -> None:
    plan = plan_in_graph(TrainConfig(), CLUSTER, sync=True)
    kinds = [TowerKind.in_graph(plan, tower, None) for tower in (0, 1)]
    assert kinds == [
        TowerKind(reuse=reuse, weighted=True, maybe_empty=True, bare=True)
        for reuse in (False, True)
    ]


def test_in_graph_a_part_of_a_split_batch_may_be_empty() -> None:
    plan = plan_in_graph(TrainConfig(split_batch=True), CLUSTER, sync=True)
    assert (plan.padded, TowerKind.in_graph(plan, 0, None).maybe_empty) == (False, True)


def test_between_graph_only_synchronous_gradients_are_weighted() -> None:
    for sync in (True, False):
        plan = plan_between_graph(TrainConfig(), CLUSTER, 1, sync=sync)
        assert TowerKind.between_graph(plan, None) == TowerKind(weighted=sync)


def test_the_towers_of_one_worker_are_always_weighted() -> None:
    plan = plan_between_graph(TrainConfig(drop_uneven=True), GPUS, 1, sync=False)
    assert [TowerKind.local(plan, tower, None) for tower in (0, 1)] == [
        TowerKind(weighted=True),
        TowerKind(reuse=True, weighted=True),
    ]


def test_accumulated_batches_share_variables_and_the_last_ones_may_be_padding() -> None:
    alone = TowerKind.alone()
    assert alone.for_batch(0, 1) == alone
    assert [alone.for_batch(number, 2) for number in (0, 1)] == [
        TowerKind(weighted=True),
        TowerKind(reuse=True, weighted=True, maybe_empty=True),
    ]
