"""Batch normalisation over replicas: whose moments normalize, and whose are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trained import same

from psclust.errors import UsageError

pytestmark = pytest.mark.tensorflow


def _config(**settings: Any) -> Any:
    import psclust

    return psclust.TrainConfig(**settings)


@pytest.mark.parametrize(
    ("points", "workers"),
    [
        (97, 2),
        *(pytest.param(*how, marks=pytest.mark.long) for how in ((97, 4), (100, 2), (100, 4))),
    ],
)
def test_shared_moments_give_the_weights_of_one_process(
    train_here: Callable[..., Any], points: int, workers: int
) -> None:
    import nets

    # 97 points: the replicas end their data at different steps, and the batches of the last step
    # have different sizes.
    program = nets.net(_config(moving_statistics="sync"), points=points)
    alone = train_here(program)
    assert alone.values["first/batch_normalization/moving_mean"].max() > 1.0
    same(alone, train_here(program, "in-graph", sync=True, workers=workers))
    same(alone, train_here(program, "between-graph", sync=True, workers=workers))


@pytest.mark.long
def test_each_replica_normalizes_its_own_batch_unless_told_otherwise(
    train_here: Callable[..., Any],
) -> None:
    import nets

    in_graph = train_here(nets.net(), "in-graph", sync=True)
    same(in_graph, train_here(nets.net(), "between-graph", sync=True))
    assert not np.allclose(
        in_graph.values["first/weights"], train_here(nets.net()).values["first/weights"], rtol=1e-3
    )


def _moved(
    train_here: Callable[..., Any], replication: str | None, *, sync: bool = True, **settings: Any
) -> float:
    import toys

    return float(
        train_here(
            toys.levels(_config(**settings)), replication, sync=sync, folder=f"{settings}"
        ).values["norm/moving_mean"][0]
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "replication", [pytest.param("in-graph", marks=pytest.mark.long), "between-graph"]
)
def test_the_statistics_of_the_first_replica_or_the_mean_of_all_are_kept(
    train_here: Callable[..., Any], replication: str
) -> None:
    # Replica i sees the constant 10 * (i + 1), ten times; each update moves the mean by half of the
    # way.
    part = 1 - 0.5**10
    assert _moved(train_here, replication) == pytest.approx(10 * part)
    assert _moved(train_here, replication, moving_statistics="mean") == pytest.approx(15 * part)
    assert _moved(train_here, replication, moving_statistics="sync") == pytest.approx(15 * part)


def test_towers_may_average_their_statistics_now_and_then(train_here: Callable[..., Any]) -> None:
    # Ten steps: what is averaged after the ninth is the mean of what each tower has seen by then.
    assert _moved(
        train_here, "in-graph", moving_statistics="mean", statistics_every=3
    ) == pytest.approx(15 * (1 - 0.5**9))


@pytest.mark.long
@pytest.mark.parametrize(
    "replication", [pytest.param("in-graph", marks=pytest.mark.long), "between-graph"]
)
def test_asynchronous_replicas_keep_the_first_ones_statistics_or_move_them_by_their_share(
    train_here: Callable[..., Any], replication: str
) -> None:
    assert _moved(train_here, replication, sync=False) == pytest.approx(10 * (1 - 0.5**10))
    # One after the other, each moves it by a quarter of the way: between 10.5 and 19.4, by who is
    # last.
    assert 10.4 < _moved(train_here, replication, sync=False, moving_statistics="mean") < 19.5
    with pytest.raises(UsageError, match="train with --sync"):
        _moved(train_here, replication, sync=False, moving_statistics="sync")


def test_a_layer_can_normalize_any_axis_with_or_without_scale() -> None:
    import tensorflow as tf

    import psclust

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
