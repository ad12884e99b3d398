"""A chief that was thought dead, and lives: its streamed rounds change nothing any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tensorflow as tf
from two_tasks import CONFIG, Cluster

import psclust
from beds.graphs import build
from psclust.errors import PsclustError
from psclust.replication.build_between_graph import BetweenGraph
from psclust.replication.sync.messages import Update, encode_update
from psclust.replication.sync.stream_ops import EARLIER_CHIEF
from psclust.replication.sync.stream_run import take_over
from psclust.testing.wait import wait_until
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


@pytest.fixture
def chief(cluster: Cluster) -> Iterator[tuple[BetweenGraph, Any]]:
    """The graph of a chief that has taken over, and its session."""
    program = psclust.Program(
        _model, _data, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1)
    )
    with tf.Graph().as_default() as graph:
        built = build(program, "between-graph sync", ps=1)
        initial = tf.compat.v1.global_variables_initializer()
        with tf.compat.v1.Session(cluster.target, graph, CONFIG) as session:
            session.run(initial)
            _take_over(built, session)
            yield built, session


def _take_over(built: BetweenGraph, session: Any) -> None:
    assert built.coordinator is not None
    assert built.coordinator.stream is not None
    take_over(session, built.coordinator, built.coordinator.stream)


def test_its_update_is_refused_after_another_chief_took_over(
    chief: tuple[BetweenGraph, Any],
) -> None:
    built, session = chief
    ops = built.coordinator
    assert ops is not None
    round_ = _now()
    session.run(ops.update, {ops.made: _update(round_, 1)})
    _take_over(built, session)
    with pytest.raises(PsclustError, match="another chief"), explained(session.graph):
        session.run(ops.update, {ops.made: _update(round_ + 1, 2)})
    state = session.run(built.state.now)
    assert (state.global_step, state.positions.tolist()) == (1, [1, 0])
    session.run(ops.update, {ops.made: _update(_now(), 2)})
    assert session.run(built.state.global_step) == 2


def test_its_stream_that_waits_for_gradients_gets_some_and_fails(
    chief: tuple[BetweenGraph, Any],
) -> None:
    built, session = chief
    ops = built.coordinator
    assert ops is not None
    assert ops.stream is not None
    weights = built.tower.variables[0]
    before = session.run(weights)
    with ThreadPoolExecutor(1) as thread:
        fed = {ops.stream.members: [_now(), 1, 1]}
        waiting = thread.submit(session.run, list(ops.stream.stream), fed)
        wait_until(lambda: ops.marks.half_made(session), what="the stream")
        _take_over(built, session)
        with pytest.raises(tf.errors.InvalidArgumentError, match=EARLIER_CHIEF):
            waiting.result(60)
    assert (session.run(weights) == before).all()
    assert not any(session.run(ops.sums.counts))
