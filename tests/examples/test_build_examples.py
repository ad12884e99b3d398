"""Every example can be built in either kind of replication, over several ps and with cut variables,
and in all of its modes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

# TensorFlow's own, of its own linear model.
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated"),
]

EXAMPLES = ["digits", "residual", "segmentation", "wide_deep", "skip_gram", "recommender"]
WAYS = ["in-graph", "between-graph"]


@pytest.fixture
def program(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return import_module(f"psclust.examples.{request.param}").program


@pytest.mark.parametrize(
    ("program", "replication"),
    [
        *zip(EXAMPLES[:3], WAYS * 2, strict=False),
        *(
            pytest.param(*pair, marks=pytest.mark.long)
            for pair in zip(EXAMPLES[3:], WAYS * 2, strict=False)
        ),
        *(
            pytest.param(*pair, marks=pytest.mark.long)
            for pair in zip(EXAMPLES, reversed(WAYS * 3), strict=True)
        ),
    ],
    indirect=["program"],
)
def test_it_can_be_built(program: Any, replication: str) -> None:
    import tensorflow as tf

    from psclust.placement.placement_settings import PlacementSettings
    from psclust.replication.build_between_graph import build_between_graph
    from psclust.replication.build_in_graph import build_in_graph
    from psclust.replication.device_layout import DeviceLayout

    workers = ("/job:worker/task:0", "/job:worker/task:1")
    policy = PlacementSettings("balanced", max_shard_bytes=32 * 1024)
    with tf.Graph().as_default():
        if replication == "in-graph":
            towers = build_in_graph(
                program, DeviceLayout(2, workers, "/job:client/task:0", policy), sync=True
            ).towers
            assert len(towers) == 2
            tower = towers[1]
        else:
            tower = build_between_graph(
                program, DeviceLayout(2, workers, workers[1], policy), 1, sync=True, chief=False
            ).tower
        # Variables are spread over the ps, and each has a gradient.
        assert {
            tf.DeviceSpec.from_string(variable.device).task for _, variable in tower.gradients
        } == {0, 1}
        assert len(tower.gradients) == len(tf.compat.v1.trainable_variables())


@pytest.mark.parametrize("program", EXAMPLES, indirect=True)
def test_it_evaluates_with_a_metric_and_predicts_without_labels(program: Any) -> None:
    import tensorflow as tf

    import psclust

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
