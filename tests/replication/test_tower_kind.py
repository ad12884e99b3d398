"""The four places that build towers, and the batches that one of them accumulates, without
TensorFlow."""

from __future__ import annotations

from psclust.replication.device_layout import DeviceLayout
from psclust.replication.graph_plan import plan_between_graph, plan_in_graph
from psclust.replication.towers.tower_kind import TowerKind
from psclust.train.config import TrainConfig

WORKERS = ("/job:worker/task:0", "/job:worker/task:1")
CLUSTER = DeviceLayout(1, WORKERS, "/job:client/task:0")
GPUS = DeviceLayout(1, WORKERS, WORKERS[0], devices=("/device:GPU:0", "/device:GPU:1"))


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
