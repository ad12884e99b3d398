"""What happens to a gradient before it is applied: the same in every replication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from trained import same

from psclust.errors import UsageError

pytestmark = pytest.mark.tensorflow

LONG = pytest.mark.long
EVERYWHERE = [
    ("between-graph", False),
    *(
        pytest.param(*how, marks=LONG)
        for how in (("in-graph", True), ("between-graph", True), ("in-graph", False))
    ),
]
DECAYED = {"clip_norm": 0.5, "weight_decay": 0.1, "average_decay": 0.9}
ADAM = {"l2": 0.1, "optimizer": "AdamOptimizer"}
ADAGRAD = {"weight_decay": 0.1, "optimizer": "AdagradOptimizer"}


def _net(**settings: Any) -> Any:
    import nets

    import psclust

    params = {name: settings.pop(name) for name in list(settings) if name in nets.NET}
    return nets.net(psclust.TrainConfig(**settings), **{"normalize": False, **params})


@pytest.mark.parametrize(
    ("settings", "replication"),
    [
        (DECAYED, "in-graph"),
        *(
            pytest.param(settings, "between-graph", marks=LONG)
            for settings in (DECAYED, ADAM, ADAGRAD)
        ),
        *(pytest.param(settings, "in-graph", marks=LONG) for settings in (ADAM, ADAGRAD)),
    ],
)
def test_every_number_of_replicas_gives_the_same_weights(
    train_here: Callable[..., Any], settings: dict[str, Any], replication: str
) -> None:
    program = _net(**settings, points=97)
    alone = train_here(program)
    plain = train_here(
        _net(points=97, optimizer=settings.get("optimizer", "MomentumOptimizer")), folder="plain"
    )
    assert not np.allclose(alone.values["first/weights"], plain.values["first/weights"], rtol=1e-3)
    same(alone, train_here(program, replication, sync=True, workers=3))


@LONG
def test_accumulated_batches_are_one_batch_as_large(train_here: Callable[..., Any]) -> None:
    # 97 points in batches of 4, three of them an update: 25 batches make eight updates and one of a
    # single batch, of one point.
    whole = train_here(_net(points=97))
    assert whole.step == 9
    settings = {"accumulate": 3, "clip_norm": 1e6}
    parts = train_here(_net(points=97, batch=4, **settings), folder="parts")
    same(whole, parts)
    for replication in ("in-graph", "between-graph"):
        same(
            whole,
            train_here(_net(points=97, batch=4, accumulate=3), replication, sync=True, workers=2),
        )


@pytest.mark.parametrize(("replication", "sync"), EVERYWHERE)
def test_the_update_is_clipped_after_averaging_duplicate_rows_included(
    train_here: Callable[..., Any], replication: str, sync: bool
) -> None:
    import toys

    # Of both variables the gradient is a half in each of two rows (sync) or one in one row (async);
    # every word comes twice in a batch.
    norm = 1.0 if sync else 2**0.5
    program = toys.clipped(0.1)
    trained = train_here(program, replication, sync=sync)
    each = 0.1 / norm * (0.5 if sync else 1.0) * 100
    assert trained.values["dense"].tolist() == pytest.approx([each, each, 0.0, 0.0], rel=1e-4)
    assert trained.values["sparse"][:, 0].tolist() == pytest.approx(
        [each, each, 0.0, 0.0], rel=1e-4
    )


def test_duplicate_rows_are_summed_before_the_norm() -> None:
    import tensorflow as tf

    from psclust.replication.gradients import clip

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table = tf.compat.v1.get_variable("table", [4, 2])
        twice = tf.IndexedSlices(
            tf.constant([[3.0, 0.0], [0.0, 1.0], [0.0, 4.0]]),
            tf.constant([2, 0, 2]),
            tf.constant([4, 2]),
        )
        ((clipped, _),) = clip([(twice, table)], 1.0)
        assert isinstance(clipped, tf.IndexedSlices)
        dense = session.run(tf.convert_to_tensor(clipped))
    np.testing.assert_allclose(
        dense, np.array([[0, 1], [0, 0], [3, 4], [0, 0]]) / 26**0.5, rtol=1e-6
    )


@pytest.mark.parametrize(("replication", "sync"), EVERYWHERE)
def test_averaged_weights_are_in_the_checkpoint_under_tensorflows_names(
    train_here: Callable[..., Any], replication: str, sync: bool
) -> None:
    # Not a half: two workers that move an average at the same moment move it twice, which with a
    # half is onto the value itself.
    trained = train_here(_net(average_decay=0.9), replication, sync=sync)
    shadow = trained.values["output/ExponentialMovingAverage"]
    assert shadow.shape == trained.values["output"].shape
    assert not np.allclose(shadow, trained.values["output"], rtol=1e-4)


def test_averages_are_those_of_tensorflow() -> None:
    import tensorflow as tf

    from psclust.replication.update.apply_update import move_averages

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        whole = v1.get_variable(
            "whole", [3], initializer=v1.truncated_normal_initializer(seed=1), use_resource=True
        )
        split = v1.get_variable(
            "split", [5], tf.float64, partitioner=v1.fixed_size_partitioner(2), use_resource=True
        )
        variables = [whole, *split]
        theirs = tf.train.ExponentialMovingAverage(0.9, step, name="Theirs")
        moved = [variable.assign_add(tf.ones_like(variable)) for variable in variables] + [
            step.assign_add(1)
        ]
        with tf.control_dependencies(moved):
            both = [theirs.apply(variables), *move_averages(variables, 0.9, step)]
        session.run(v1.global_variables_initializer())
        for _ in range(20):
            session.run(both)
        found = {
            variable.op.name: value
            for variable, value in zip(
                v1.global_variables(), session.run(v1.global_variables()), strict=True
            )
        }
        shadows = [
            variable
            for variable in v1.global_variables()
            if variable.op.name.endswith("/ExponentialMovingAverage")
        ]
        parts = [
            variable._save_slice_info.full_name for variable in shadows if variable._save_slice_info
        ]
    assert len(shadows) == 3
    assert parts == ["split/ExponentialMovingAverage"] * 2
    for name in (
        variable.op.name.removesuffix("/ExponentialMovingAverage") for variable in shadows
    ):
        np.testing.assert_allclose(
            found[f"{name}/ExponentialMovingAverage"], found[f"{name}/Theirs"], rtol=1e-6
        )
        assert not np.allclose(found[name], found[f"{name}/Theirs"], rtol=1e-2)


def test_what_is_no_float_is_not_averaged() -> None:
    import tensorflow as tf

    from psclust.replication.update.apply_update import move_averages

    with tf.Graph().as_default():
        step = tf.compat.v1.train.get_or_create_global_step()
        count = tf.compat.v1.get_variable("count", [], tf.int64, use_resource=True)
        with pytest.raises(UsageError, match="average_decay: count cannot be averaged"):
            move_averages([count], 0.9, step)


def test_evaluation_uses_the_averages(train_here: Callable[..., Any]) -> None:
    import toys

    # A weight that has moved from 0 by 1 a step, and its average: the loss is minus both words'
    # weight.
    trained = train_here(toys.averaged(0.5))
    shadow = trained.values["dense/ExponentialMovingAverage"][0]
    assert trained.values["dense"][0] == 100.0
    assert 90.0 < shadow < 100.0
    assert toys.averaged(0.5).evaluate(trained.model_dir).metrics["loss"] == pytest.approx(
        -2 * shadow
    )
    assert toys.tally.evaluate(trained.model_dir).metrics["loss"] == pytest.approx(-200.0)
    plain = train_here(toys.tally, folder="plain")
    with pytest.raises(UsageError, match="has no moving averages"):
        toys.averaged(0.5).evaluate(plain.model_dir)


@pytest.mark.parametrize("replication", [pytest.param("in-graph", marks=LONG), "between-graph"])
def test_the_wire_may_be_bfloat16_while_variables_are_not(
    train_here: Callable[..., Any], replication: str
) -> None:
    import toys

    import psclust

    exact = train_here(toys.line, replication, sync=True).values["weights"]
    program = replace(toys.line, config=psclust.TrainConfig(wire_dtype="bfloat16"))
    rounded = train_here(program, replication, sync=True, folder="rounded").values["weights"]
    assert rounded.dtype == np.float32
    assert not np.array_equal(rounded, exact)
    np.testing.assert_allclose(rounded, exact, rtol=0.05, atol=0.02)


def test_what_has_no_meaning_is_refused(train_here: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match="choose moving_statistics 'mean'"):
        train_here(
            _net(accumulate=2, moving_statistics="sync", normalize=True), "in-graph", sync=True
        )
