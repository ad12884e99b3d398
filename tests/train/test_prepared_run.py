"""Prepared runs: what they return and raise is what `Session.run` returns and raises."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication.prepared_run import prepare
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.tensorflow

V1 = tf.compat.v1


@pytest.fixture(params=["in this process", "by a server"])
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    target = (
        "" if request.param == "in this process" else V1.train.Server.create_local_server().target
    )
    with V1.Session(target, graph=tf.Graph()) as session:
        yield session


def test_values_of_tensors_come_in_order_and_of_ops_not(session: Any) -> None:
    x, y = V1.placeholder(tf.int64, [], name="x"), V1.placeholder(tf.float32, [None], name="y")
    total = V1.Variable(np.int64(0), use_resource=True)
    add = total.assign_add(x, read_value=False)
    session.run(total.initializer)
    run = prepare(session, [y * 2, add, x + 1], [x, y])
    doubled, more = run(3, [1, 2])
    assert doubled.tolist() == [2.0, 4.0]
    assert more == 4
    run(4, [])
    assert prepare(session, [total.read_value()])() == [7]


def _own(error: tf.errors.OpError) -> str:
    """The message without what a server adds in some runs: a payload, and its last lines of log."""
    return re.split(r" \[type\.|\s+Recent warning and error logs:", error.message)[0]


def test_an_error_is_the_one_of_run(session: Any) -> None:
    x = V1.placeholder(tf.int32, [], name="x")
    checked = tf.debugging.check_numerics(1.0 / tf.cast(x, tf.float32), "of x")
    run = prepare(session, [checked], [x])
    with pytest.raises(tf.errors.InvalidArgumentError) as prepared:
        run(0)
    with pytest.raises(tf.errors.InvalidArgumentError) as plain:
        session.run(checked, {x: 0})
    assert prepared.value.op is plain.value.op is checked.op
    assert _own(prepared.value) == _own(plain.value)
    assert run(2) == [0.5]


def test_closing_the_session_ends_a_run_that_waits_and_the_next_fails(session: Any) -> None:
    queue = V1.FIFOQueue(1, [tf.int32], [[]])
    run = prepare(session, [queue.dequeue()])
    errors: list[Exception] = []
    started = threading.Event()

    def wait() -> None:
        started.set()
        try:
            run()
        except tf.errors.OpError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    session.run(queue.size())
    session.close()
    wait_until(lambda: not thread.is_alive(), what="the end of the waiting run")
    assert len(errors) == 1
    with pytest.raises((tf.errors.OpError, RuntimeError)):
        run()
