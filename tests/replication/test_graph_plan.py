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
from psclust.train.config import TrainConfig

CLIENT = "/job:client/task:0"
WORKERS = ("/job:worker/task:0", "/job:worker/task:1")
CLUSTER = DeviceLayout(2, WORKERS, CLIENT)
GPUS = DeviceLayout(2, WORKERS, WORKERS[1], devices=("/device:GPU:0", "/device:GPU:1"))
ONE_WORKER = DeviceLayout(1, WORKERS[:1], WORKERS[0], devices=GPUS.devices)


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
        ({}, True, {"combined": True, "padded": True}),
        ({}, False, {}),
        ({"drop_uneven": True}, True, {"combined": True}),
        ({"split_batch": True}, True, {"combined": True, "split_on": CLIENT}),
        (
            {"moving_statistics": "sync"},
            True,
            {"combined": True, "padded": True, "share_moments": True},
        ),
        (
            {"moving_statistics": "mean", "statistics_every": 5},
            True,
            {"combined": True, "padded": True, "own_statistics": True},
        ),
        ({"moving_statistics": "first", "statistics_every": 5}, False, {}),
    ],
)
def test_what_the_settings_change_in_graph(
    config: dict[str, Any], sync: bool, changed: dict[str, Any]
) -> None:
    alone: dict[str, Any] = {
        "combined": False,
        "split_on": None,
        "padded": False,
        "share_moments": False,
        "own_statistics": False,
    }
    wanted = InGraphPlan(WORKERS, **{**alone, **changed}, bare=True, train_op=False, copies=True)
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
        ({"moving_statistics": "sync"}, GPUS, 0, 2, (None, False, True, True, True)),
        (
            {"moving_statistics": "sync", "split_batch": True},
            GPUS,
            0,
            1,
            (None, True, True, True, True),
        ),
        # The moments of one worker's towers need no other worker.
        ({"moving_statistics": "sync"}, ONE_WORKER, 0, 2, (None, False, False, True, True)),
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
    assert plan_between_graph(TrainConfig(**config), CLUSTER, 0, sync=False).copies == (
        named is None
    )
    assert plan_between_graph(TrainConfig(**config), CLUSTER, 0, sync=True).copies == (
        named is None
    )


def test_synchronous_workers_pull_first_where_a_step_goes_on_without_some_of_them() -> None:
    assert not plan_between_graph(TrainConfig(), CLUSTER, 0, sync=True, backups=1).copies
    assert not plan_between_graph(
        TrainConfig(moving_statistics="sync"), CLUSTER, 0, sync=True
    ).copies
    assert one_way_in_step(TrainConfig(moving_statistics="sync")) == "moving_statistics=sync"
    assert one_way_in_step(TrainConfig()) is None


def test_a_worker_has_a_tower_on_each_of_its_devices() -> None:
    plan = plan_between_graph(TrainConfig(), GPUS, 1, sync=False)
    assert plan.towers == ("/job:worker/task:1/device:GPU:0", "/job:worker/task:1/device:GPU:1")


@pytest.mark.parametrize(
    ("config", "layout", "sync", "message"),
    [
        ({}, DeviceLayout(1, (), CLIENT), True, "at least one worker"),
        ({}, DeviceLayout(0, WORKERS, CLIENT), True, "at least one ps"),
        (
            {"split_batch": True},
            CLUSTER,
            False,
            "the towers of an asynchronous in-graph training do not",
        ),
        (
            {"moving_statistics": "sync"},
            CLUSTER,
            False,
            "asynchronous replicas have no batch in common",
        ),
        (
            {"moving_statistics": "sync", "accumulate": 2},
            CLUSTER,
            True,
            "accumulate=2 computes them one after another",
        ),
        (
            {"moving_statistics": "mean", "statistics_every": 5},
            CLUSTER,
            False,
            "it needs in-graph synchronous replication",
        ),
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
        (
            {},
            1,
            True,
            2,
            (
                "2 backup workers of 2 workers leave no gradient to wait for; "
                "lower backup_workers to 1 or less"
            ),
        ),
        ({"moving_statistics": "sync"}, 1, True, 1, "backup_workers goes on without the last ones"),
        (
            {"moving_statistics": "sync"},
            1,
            False,
            0,
            "asynchronous replicas have no batch in common",
        ),
        (
            {"moving_statistics": "mean", "statistics_every": 5},
            1,
            True,
            0,
            "it needs in-graph synchronous replication",
        ),
    ],
)
def test_between_graph_what_cannot_work_is_refused(
    config: dict[str, Any], ps: int, sync: bool, backups: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_between_graph(
            TrainConfig(**config),
            DeviceLayout(ps, WORKERS, WORKERS[0]),
            0,
            sync=sync,
            backups=backups,
        )
