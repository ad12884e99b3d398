"""A worker whose queues have stamps that an earlier process of it has not taken: it pulls once
more, then steps as before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import toys
from ways import Train

import psclust
from psclust.replication.sync.messages import Kind
from psclust.replication.sync.participant import BarrierParticipant
from psclust.replication.sync.participant_ops import ParticipantOps
from psclust.replication.sync.stamps import announce, stamp_of, stamps

pytestmark = pytest.mark.tensorflow


def test_it_takes_what_is_left_and_pulls_once() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        groups = [tf.compat.v1.get_variable(name, []) for name in "ab"]
        kind, incarnation, round_ = (tf.compat.v1.placeholder(tf.int64, []) for _ in range(3))
        # In place of the chief: a token for the next round whenever one is asked for.
        known, rounds, pulls = (
            tf.compat.v1.Variable(tf.constant(value, tf.int64), use_resource=True)
            for value in (0, 100, 0)
        )
        token = tf.stack([tf.constant(Kind.GO, tf.int64), known, rounds.assign_add(1), 0])
        taken = [stamp_of([group], 0) for group in groups]
        ops = ParticipantOps(
            kind=kind,
            incarnation=incarnation,
            round=round_,
            step=(token, tf.constant(0.5), tf.constant([4, 0]), tf.timestamp(), tf.stack(taken)),
            stamps=[taken],
            next_step=tf.constant(0),
            send=tf.group(known.assign(incarnation)),
            token=token,
            pull=tf.group(pulls.assign_add(1)),
        )
        session.run(tf.compat.v1.global_variables_initializer())
        stamp = tf.compat.v1.placeholder(tf.int64, [1])
        announced = [announce([group], [stamp], []) for group in groups]
        for number in (7, 9, 101, 102, 103):
            session.run(announced[0], {stamp: [number]})
        for number in (101, 102, 103):
            session.run(announced[1], {stamp: [number]})
        participant = BarrierParticipant(session, ops)
        participant.join()
        seen = []
        for _ in range(3):
            participant.step()
            seen.append(session.run(pulls))
        # At its beginning, then because it has read too soon, then no more.
        assert seen == [1, 2, 2]
        assert [session.run(stamps([group], 0).size()) for group in groups] == [0, 0]


class Waiting(tf.compat.v1.train.SessionRunHook):
    """Notes how many stamps of a variable wait for the two workers when one of them begins."""

    def __init__(self, variable: Any, noted: list[list[int]]) -> None:
        self._sizes = [stamps([variable], worker).size() for worker in range(2)]
        self._noted = noted

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._noted.append(session.run(self._sizes))


def test_the_first_barrier_leaves_none(train_here: Train) -> None:
    noted: list[list[int]] = []

    def model(features: Any) -> psclust.EstimatorSpec:
        weights = toys.zeros("weights", [600, 600])
        loss = tf.reduce_mean(tf.matmul(features, weights))
        return psclust.EstimatorSpec("train", loss=loss, training_hooks=[Waiting(weights, noted)])

    program = toys.repeated(tf.reduce_mean, np.ones([4, 600], np.float32), 4)
    train_here(replace(program, model_fn=model), "between-graph", sync=True, here=True)
    assert noted == [[0, 0], [0, 0]]
