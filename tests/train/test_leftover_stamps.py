"""A worker whose queues have stamps that an earlier process of it has not taken: it pulls once more, then steps as before."""

from __future__ import annotations

import pytest
import tensorflow as tf

from psclust.replication.sync.barrier_messages import Kind
from psclust.replication.sync.barrier_ops import ParticipantOps
from psclust.replication.sync.readiness import announce, stamped, stamps
from psclust.train.sync.participant import BarrierParticipant

pytestmark = pytest.mark.tensorflow


def test_it_takes_what_is_left_and_pulls_once() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        groups = [tf.compat.v1.get_variable(name, []) for name in "ab"]
        kind, incarnation, round_ = (tf.compat.v1.placeholder(tf.int64, []) for _ in range(3))
        # In place of the chief: a token for the next round whenever one is asked for.
        known, rounds, pulls = (tf.compat.v1.Variable(tf.constant(value, tf.int64), use_resource=True) for value in (0, 100, 0))
        token = tf.stack([tf.constant(Kind.GO, tf.int64), known, rounds.assign_add(1), 0])
        taken = [stamped([group], 0) for group in groups]
        ops = ParticipantOps(
            kind=kind,
            incarnation=incarnation,
            round=round_,
            step=(token, tf.constant(0.5), tf.constant(4), tf.timestamp(), tf.stack(taken)),
            reported=tf.no_op(),
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
