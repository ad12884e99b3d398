"""Every example can be built in either kind of replication, with what its shards, tables and statistics need."""

from __future__ import annotations

from importlib import import_module

import pytest

# TensorFlow's own, of its own linear model.
pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated")]

EXAMPLES = ["digits", "residual", "segmentation", "wide_deep", "skip_gram", "recommender"]


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_it_can_be_built(example: str, replication: str) -> None:
    import tensorflow as tf

    from psclust.placement.policy import Policy
    from psclust.replication.between_graph import build_between_graph
    from psclust.replication.in_graph import build_in_graph
    from psclust.replication.layout import Layout

    program = import_module(f"psclust.examples.{example}").program
    workers = ("/job:worker/task:0", "/job:worker/task:1")
    policy = Policy("balanced", max_shard_bytes=32 * 1024)
    with tf.Graph().as_default():
        if replication == "in-graph":
            towers = build_in_graph(program, Layout(2, workers, "/job:client/task:0", policy), sync=True).towers
            assert len(towers) == 2
            tower = towers[1]
        else:
            tower = build_between_graph(program, Layout(2, workers, workers[1], policy), 1, sync=True, chief=False).tower
        # Variables are spread over the ps, and each has a gradient.
        assert {tf.DeviceSpec.from_string(variable.device).task for _, variable in tower.gradients} == {0, 1}
        assert len(tower.gradients) == len(tf.compat.v1.trainable_variables())
