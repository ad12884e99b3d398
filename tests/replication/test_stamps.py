"""Stamps: what a worker takes for the update it waits for."""

from __future__ import annotations

import pytest
import tensorflow as tf

from psclust.replication.sync.stamps import announce, stamps

pytestmark = pytest.mark.tensorflow


def test_each_worker_gets_its_own_stamps_in_their_order(session: tf.compat.v1.Session) -> None:
    variable = tf.compat.v1.get_variable("v", [])
    round_ = tf.compat.v1.placeholder(tf.int64, [1])
    enqueued = announce([variable], [round_, round_[:0], round_], [])
    sizes = [stamps([variable], worker).size() for worker in range(3)]
    taken = stamps([variable], 2).dequeue()
    for number in (3, 5):
        session.run(enqueued, {round_: [number]})
    assert session.run(sizes) == [2, 0, 2]
    assert [session.run(taken) for _ in range(2)] == [3, 5]
    assert session.run(sizes) == [2, 0, 0]


def test_stamps_follow_the_update(session: tf.compat.v1.Session) -> None:
    variable = tf.compat.v1.get_variable("v", [], initializer=tf.compat.v1.zeros_initializer())
    updates = [variable.assign_add(1.0).op for _ in range(2)]
    session.run(variable.initializer)
    (announced,) = announce([variable], [tf.constant([1], tf.int64)], updates)
    assert set(updates) <= set(announced.control_inputs)
    session.run(announced)
    assert session.run(variable) == 2.0


@pytest.mark.usefixtures("session")
def test_graphs_that_create_a_group_in_another_order_share_its_queue() -> None:
    one, other = (tf.compat.v1.get_variable(name, []) for name in "ba")
    queues = [stamps(group, 0).queue_ref.op for group in ([one, other], [other, one])]
    assert len({queue.get_attr("shared_name") for queue in queues}) == 1
