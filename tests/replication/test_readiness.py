"""Stamps: what a worker takes for the update it waits for."""

from __future__ import annotations

import pytest
import tensorflow as tf

from psclust.replication.sync.readiness import announce, stamped, stamps

pytestmark = pytest.mark.tensorflow


def test_stamps_of_older_rounds_are_skipped_and_each_worker_has_its_own() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", [], initializer=tf.compat.v1.constant_initializer(7.0))
        round_ = tf.compat.v1.placeholder(tf.int64, [])
        enqueued = announce([variable], [tf.constant(1, tf.int64), tf.constant(0, tf.int64)], round_, [])
        with tf.control_dependencies(stamped([variable], 0, round_)):
            value = variable.read_value()
        sizes = [stamps([variable], worker).size() for worker in (0, 1)]
        session.run(variable.initializer)
        for number in (3, 5, 7):
            session.run(enqueued, {round_: number})
        assert session.run(sizes) == [3, 0]
        assert session.run(value, {round_: 5}) == 7.0
        assert session.run(sizes) == [1, 0]
        # A stamp of a later round, with which a new chief lets workers go on, is as good.
        assert session.run(value, {round_: 6}) == 7.0


def test_graphs_that_create_a_group_in_another_order_share_its_queue() -> None:
    with tf.Graph().as_default():
        one, other = (tf.compat.v1.get_variable(name, []) for name in "ba")
        names = {stamps(group, 0).queue_ref.op.get_attr("shared_name") for group in ([one, other], [other, one])}
        assert len(names) == 1
