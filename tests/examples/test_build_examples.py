"""Every example can be built in either kind of replication, over several ps and with cut variables,
and in all of its modes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import psclust
from beds.graphs import build
from psclust.placement.placement_settings import PlacementSettings

# TensorFlow's own, of its own linear model.
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated"),
]

EXAMPLES = ["digits", "residual", "segmentation", "wide_deep", "skip_gram", "recommender"]
WAYS = ["in-graph sync", "between-graph sync"]
QUICK = [*zip(EXAMPLES[:3], [WAYS[0], WAYS[1], WAYS[0]], strict=True)]


@pytest.fixture
def program(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return import_module(f"psclust.examples.{request.param}").program


@pytest.mark.parametrize(
    ("program", "how"),
    [
        pytest.param(name, way, marks=[] if (name, way) in QUICK else pytest.mark.long)
        for name in EXAMPLES
        for way in WAYS
    ],
    indirect=["program"],
)
def test_it_can_be_built(program: Any, how: str) -> None:
    policy = PlacementSettings("balanced", max_shard_bytes=32 * 1024)
    with tf.Graph().as_default():
        built = build(program, how, policy, replica=1)
        tower = built.towers[1] if how == WAYS[0] else built.tower
        # Variables are spread over the ps, and each has a gradient.
        devices = [variable.device for _, variable in tower.gradients]
        assert {tf.DeviceSpec.from_string(device).task for device in devices} == {0, 1}
        assert len(devices) == len(tf.compat.v1.trainable_variables())


@pytest.mark.parametrize("program", EXAMPLES, indirect=True)
def test_it_evaluates_with_a_metric_and_predicts_without_labels(program: Any) -> None:
    for mode in (psclust.ModeKeys.EVAL, psclust.ModeKeys.PREDICT):
        with tf.Graph().as_default():
            batch = tf.compat.v1.data.make_one_shot_iterator(
                program.dataset(mode, psclust.Shard())
            ).get_next()
            features, labels = batch if isinstance(batch, tuple) else (batch, None)
            spec = program.spec(features, labels if mode == psclust.ModeKeys.EVAL else None, mode)
            assert bool(spec.eval_metric_ops) == (mode == psclust.ModeKeys.EVAL)
            assert (spec.loss is not None) == (mode == psclust.ModeKeys.EVAL)
            assert spec.predictions is not None or mode == psclust.ModeKeys.EVAL
