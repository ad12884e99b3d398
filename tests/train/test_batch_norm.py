"""Batch normalisation over replicas: whose moments normalize, and whose are kept."""

from __future__ import annotations

from typing import Any

import nets
import numpy as np
import pytest
import tensorflow as tf
import toys
from trained import same
from ways import Train

import psclust
from beds.tiers import longer

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("points", "workers"),
    [
        *longer((97, 2), (97, 4), (100, 2), (100, 4)),
    ],
)
def test_shared_moments_give_the_weights_of_one_process(
    train_here: Train, points: int, workers: int
) -> None:
    # 97 points: the replicas end their data at different steps, and the batches of the last step
    # have different sizes.
    program = nets.net(psclust.TrainConfig(moving_statistics="sync"), points=points)
    alone = train_here(program)
    assert alone.values["first/batch_normalization/moving_mean"].max() > 1.0
    same(alone, train_here(program, "in-graph", sync=True, workers=workers))
    same(alone, train_here(program, "between-graph", sync=True, workers=workers))


@pytest.mark.long
def test_each_replica_normalizes_its_own_batch_unless_told_otherwise(
    train_here: Train,
) -> None:
    in_graph = train_here(nets.net(), "in-graph", sync=True)
    same(in_graph, train_here(nets.net(), "between-graph", sync=True))
    assert not np.allclose(
        in_graph.values["first/weights"], train_here(nets.net()).values["first/weights"], rtol=1e-3
    )


def _moved(
    train_here: Train,
    replication: str | None,
    *,
    sync: bool = True,
    devices: int | None = None,
    **settings: Any,
) -> float:
    program = toys.levels(psclust.TrainConfig(**settings))
    trained = train_here(program, replication, sync=sync, devices=devices, folder=f"{settings}")
    return float(trained.values["norm/moving_mean"][0])


@pytest.mark.long
@pytest.mark.parametrize(
    ("replication", "devices", "mean"),
    [("in-graph", None, 15), ("between-graph", None, 15), ("between-graph", 2, 25)],
)
def test_the_statistics_of_the_first_replica_or_the_mean_of_all_are_kept(
    train_here: Train, replication: str, devices: int | None, mean: int
) -> None:
    # Replica i sees the constant 10 * (i + 1), ten times; each update moves the mean by half of the
    # way.
    for moving, expected in (("first", 10), ("mean", mean), ("sync", mean)):
        found = _moved(train_here, replication, devices=devices, moving_statistics=moving)
        assert found == pytest.approx(expected * (1 - 0.5**10))


def test_towers_may_average_their_statistics_now_and_then(train_here: Train) -> None:
    # Ten steps: what is averaged after the ninth is the mean of what each tower has seen by then.
    found = _moved(train_here, "in-graph", moving_statistics="mean", statistics_every=3)
    assert found == pytest.approx(15 * (1 - 0.5**9))


@pytest.mark.long
@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_asynchronous_replicas_keep_the_first_ones_statistics_or_move_them_by_their_share(
    train_here: Train, replication: str
) -> None:
    assert _moved(train_here, replication, sync=False) == pytest.approx(10 * (1 - 0.5**10))
    # One after the other, each moves it by a quarter of the way: between 10.5 and 19.4, by who is
    # last.
    assert 10.4 < _moved(train_here, replication, sync=False, moving_statistics="mean") < 19.5


def test_a_layer_can_normalize_any_axis_with_or_without_scale() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.random.stateless_normal([8, 3, 5], [1, 2]) * 4.0 + 100.0
        y = psclust.batch_normalization(
            x, True, axis=1, epsilon=0.0, center=False, scale=False, name="bn"
        )
        frozen = psclust.batch_normalization(x, tf.constant(False), axis=1, name="frozen")
        assert [v.op.name for v in tf.compat.v1.trainable_variables()] == [
            "frozen/gamma",
            "frozen/beta",
        ]
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS))
        values, raw, same_, moving = session.run([y, x, frozen, tf.compat.v1.global_variables()])
    np.testing.assert_allclose(values.mean((0, 2)), 0.0, atol=1e-4)
    np.testing.assert_allclose(values.var((0, 2)), 1.0, rtol=1e-4)
    np.testing.assert_allclose(same_, raw / np.sqrt(1.001), rtol=1e-5)
    np.testing.assert_allclose(moving[0], raw.mean((0, 2)) * 0.01, rtol=1e-4)
