"""A chief that was thought dead, and lives: its streamed rounds change nothing any more."""

from __future__ import annotations

import time
from typing import Any

import pytest
import tensorflow as tf
from two_tasks import CONFIG, Cluster

import psclust
from beds.graphs import build
from psclust.errors import PsclustError
from psclust.replication.sync.messages import Update, encode_update
from psclust.replication.sync.stream_run import take_over
from psclust.train.user_errors.step_errors import explained

pytestmark = [pytest.mark.tensorflow, pytest.mark.process]


def _model(features: Any) -> psclust.EstimatorSpec:
    weights = tf.compat.v1.get_variable("weights", [600, 600])
    return psclust.EstimatorSpec("train", loss=tf.reduce_mean(tf.matmul(features, weights)))


def _data() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(tf.ones([4, 600])).repeat(4)


def _now() -> int:
    """A round of a barrier that begins now."""
    return time.time_ns() // 1000


def _update(round_: int, step: int) -> Any:
    return encode_update(Update(round_, step, 4, {0: 1}, {}), 2)


def test_its_update_is_refused_after_another_chief_took_over(cluster: Cluster) -> None:
    program = psclust.Program(
        _model, _data, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1)
    )
    with tf.Graph().as_default() as graph:
        built = build(program, "between-graph sync", ps=1)
        ops = built.coordinator
        assert ops is not None
        assert ops.stream is not None
        initial = tf.compat.v1.global_variables_initializer()
        with tf.compat.v1.Session(cluster.target, graph, CONFIG) as session:
            session.run(initial)
            take_over(session, ops.stream, ops.marks)
            round_ = _now()
            session.run(ops.update, {ops.made: _update(round_, 1)})
            take_over(session, ops.stream, ops.marks)
            with pytest.raises(PsclustError, match="another chief"), explained(graph):
                session.run(ops.update, {ops.made: _update(round_ + 1, 2)})
            state = session.run(built.state.now)
            assert (state.global_step, state.positions.tolist()) == (1, [1, 0])
            session.run(ops.update, {ops.made: _update(_now(), 2)})
            assert session.run(built.state.global_step) == 2
