"""What happens to a gradient before it is applied: the same in every replication."""

from __future__ import annotations

from typing import Any

import nets
import numpy as np
import pytest
import tensorflow as tf
import toys
from trained import same
from ways import Train, ways

import psclust
from beds.tiers import longer
from psclust.errors import UsageError
from psclust.replication.gradients import clip
from psclust.replication.update.apply_update import move_averages

pytestmark = pytest.mark.tensorflow

DECAYED = {"clip_norm": 0.5, "weight_decay": 0.1, "average_decay": 0.9}
ADAM = {"l2": 0.1, "optimizer": "AdamOptimizer"}
ADAGRAD = {"weight_decay": 0.1, "optimizer": "AdagradOptimizer"}


def _net(**settings: Any) -> Any:
    params = {name: settings.pop(name) for name in list(settings) if name in nets.NET}
    return nets.net(psclust.TrainConfig(**settings), **{"normalize": False, **params})


@pytest.mark.parametrize(
    ("settings", "replication"),
    [
        (DECAYED, "in-graph"),
        *longer(*((settings, "between-graph") for settings in (DECAYED, ADAM, ADAGRAD))),
        *longer((ADAM, "in-graph"), (ADAGRAD, "in-graph")),
    ],
)
def test_every_number_of_replicas_gives_the_same_weights(
    train_here: Train, settings: dict[str, Any], replication: str
) -> None:
    program = _net(**settings, points=97)
    alone = train_here(program)
    plain = train_here(
        _net(points=97, optimizer=settings.get("optimizer", "MomentumOptimizer")), folder="plain"
    )
    assert not np.allclose(alone.values["first/weights"], plain.values["first/weights"], rtol=1e-3)
    same(alone, train_here(program, replication, sync=True, workers=3))


@ways(("between-graph", False))
def test_the_update_is_clipped_after_averaging_duplicate_rows_included(
    train_here: Train, replication: str, sync: bool
) -> None:
    # Of both variables the gradient is a half in each of two rows (sync) or one in one row (async);
    # every word comes twice in a batch.
    norm = 1.0 if sync else 2**0.5
    trained = train_here(toys.tally.with_config(["clip_norm=0.1"]), replication, sync=sync)
    each = 0.1 / norm * (0.5 if sync else 1.0) * 100
    assert trained.tally == pytest.approx([each, each, 0.0, 0.0], rel=1e-4)


def test_duplicate_rows_are_summed_before_the_norm() -> None:
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


@ways(("between-graph", False))
def test_averaged_weights_are_in_the_checkpoint_under_tensorflows_names(
    train_here: Train, replication: str, sync: bool
) -> None:
    # Not a half: two workers that move an average at the same moment move it twice, which with a
    # half is onto the value itself.
    trained = train_here(_net(average_decay=0.9), replication, sync=sync)
    shadow = trained.values["output/ExponentialMovingAverage"]
    assert shadow.shape == trained.values["output"].shape
    assert not np.allclose(shadow, trained.values["output"], rtol=1e-4)


def test_averages_are_those_of_tensorflow() -> None:
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
        named = {variable.op.name: variable for variable in v1.global_variables()}
        found = session.run(named)
    shadows = [name for name in named if name.endswith("/ExponentialMovingAverage")]
    slices = [named[name]._save_slice_info for name in shadows]
    assert len(shadows) == 3
    assert [each.full_name for each in slices if each] == ["split/ExponentialMovingAverage"] * 2
    for shadow in shadows:
        name = shadow.removesuffix("/ExponentialMovingAverage")
        np.testing.assert_allclose(found[shadow], found[f"{name}/Theirs"], rtol=1e-6)
        assert not np.allclose(found[name], found[f"{name}/Theirs"], rtol=1e-2)


def test_what_is_no_float_is_not_averaged() -> None:
    with tf.Graph().as_default():
        step = tf.compat.v1.train.get_or_create_global_step()
        count = tf.compat.v1.get_variable("count", [], tf.int64, use_resource=True)
        with pytest.raises(UsageError, match="average_decay: count cannot be averaged"):
            move_averages([count], 0.9, step)


def test_evaluation_uses_the_averages(train_here: Train) -> None:
    # A weight that has moved from 0 by 1 a step, and its average: the loss is minus both words'
    # weight.
    program = toys.tally.with_config(["average_decay=0.5"])
    trained = train_here(program)
    shadow = trained.values["dense/ExponentialMovingAverage"][0]
    assert trained.values["dense"][0] == 100.0
    assert 90.0 < shadow < 100.0
    for evaluated, loss in ((program, -2 * shadow), (toys.tally, -200.0)):
        found = evaluated.evaluate(trained.model_dir).metrics["loss"]
        assert found == pytest.approx(loss)
    plain = train_here(toys.tally, folder="plain")
    with pytest.raises(UsageError, match="has no moving averages"):
        program.evaluate(plain.model_dir)
