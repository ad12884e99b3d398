"""Stamps: what a worker takes for the update it waits for."""

from __future__ import annotations

import pytest
import tensorflow as tf

from psclust.replication.sync.stream_channel import announce, stamp_of, stamps

pytestmark = pytest.mark.tensorflow


def test_each_worker_gets_its_own_stamps_in_their_order() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", [])
        round_ = tf.compat.v1.placeholder(tf.int64, [1])
        enqueued = announce([variable], [round_, round_[:0], round_], [])
        sizes = [stamps([variable], worker).size() for worker in range(3)]
        taken = stamp_of([variable], 2)
        for number in (3, 5):
            session.run(enqueued, {round_: [number]})
        assert session.run(sizes) == [2, 0, 2]
        assert [session.run(taken) for _ in range(2)] == [3, 5]
        assert session.run(sizes) == [2, 0, 0]


def test_stamps_follow_the_update() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", [], initializer=tf.compat.v1.zeros_initializer())
        updates = [variable.assign_add(1.0) for _ in range(2)]
        for operation in announce(
            [variable], [tf.constant([1], tf.int64)], [update.op for update in updates]
        ):
            assert {update.op for update in updates} <= set(operation.control_inputs)
            session.run(variable.initializer)
            session.run(operation)
        assert session.run(variable) == 2.0


def test_graphs_that_create_a_group_in_another_order_share_its_queue() -> None:
    with tf.Graph().as_default():
        one, other = (tf.compat.v1.get_variable(name, []) for name in "ba")
        names = {
            stamps(group, 0).queue_ref.op.get_attr("shared_name")
            for group in ([one, other], [other, one])
        }
        assert len(names) == 1
