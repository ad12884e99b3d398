"""How a run begins and ends its parts in another task: by psclust's wire. The ps is a process of
its own."""

from __future__ import annotations

import os
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from two_tasks import CONFIG, PS, SERVER, WORKER, Cluster, connected, process

from psclust.replication.wire.own_wire import own_wire
from psclust.testing.wait import wait_until
from psclust.train.session import open_session

pytestmark = [pytest.mark.tensorflow, pytest.mark.process, pytest.mark.usefixtures("wired_graph")]

# What TensorFlow logs.
CANCELLED = "Cancellation requested for RunGraph"
# A client that is connected, says so, and waits for a value.
WAITS = """
config = tf.compat.v1.ConfigProto(device_filters=["/job:ps", "/job:worker/task:1"])
with tf.Graph().as_default(), tf.compat.v1.Session(server.target, config=config) as session:
    with tf.device("/job:ps/task:0"):
        ticket = ops.psclust_listen(own="ps:0")
        queues = [
            tf.queue.FIFOQueue(-1, [tf.int64], [[]], shared_name=name)
            for name in ("of all", "begun")
        ]
        waits = [queues[0].dequeue(), queues[1].enqueue(tf.constant(1, tf.int64))]
    with tf.device("/job:worker/task:1"):
        connected = ops.psclust_connect(ticket, host="127.0.0.1", own="worker:1", peer="ps:0")
    session.run(connected)
    session.run(waits)
"""


def _sum_of_both() -> tf.Tensor:
    with tf.device(WORKER):
        one = tf.constant(1.0) + 0
    with tf.device(PS):
        two = one + 1
    with tf.device(WORKER):
        return one + two


def _queue(name: str = "of all") -> Any:
    with tf.device(PS):
        return tf.queue.FIFOQueue(-1, [tf.int64], [[]], shared_name=name)


def _bytes_to(address: str) -> int:
    """What this process has sent to a port, by all its connections."""
    port, total = int(address.rpartition(":")[2]), 0
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as found:
                if (
                    found.family in (socket.AF_INET, socket.AF_INET6)
                    and found.getpeername()[1] == port
                ):
                    # tcpi_bytes_acked
                    (acked,) = struct.unpack_from(
                        "Q", found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 120
                    )
                    total += acked
        except OSError:
            continue
    return total


def _within(seconds: int) -> Any:
    return tf.compat.v1.RunOptions(timeout_in_ms=1000 * seconds)


def test_nothing_of_a_run_goes_by_grpc(cluster: Cluster) -> None:
    found = _sum_of_both()
    with connected(cluster, found) as (session, _):
        # What is run for the first time is registered, by gRPC.
        assert session.run(found) == 3
        before = _bytes_to(cluster.addresses[0])
        assert before > 0
        assert [session.run(found) for _ in range(200)] == [3] * 200
        # gRPC has its own to say now and then, a run would say a hundred bytes.
        assert _bytes_to(cluster.addresses[0]) - before < 2000


def test_what_a_run_feeds_and_fetches_there_comes_with_its_beginning_and_end(
    cluster: Cluster,
) -> None:
    crossing = _sum_of_both()
    with tf.device(PS):
        fed = tf.compat.v1.placeholder(tf.float32, [None])
        twice = 2 * fed
    values = np.arange(3_000_000, dtype=np.float32)
    with connected(cluster, crossing) as (session, _):
        found, _ = session.run([twice, crossing], {fed: values})
        np.testing.assert_array_equal(found, 2 * values)


def test_an_error_is_the_same_as_by_grpc(cluster: Cluster) -> None:
    crossing = _sum_of_both()
    with tf.device(PS):
        allowed = tf.compat.v1.placeholder(tf.bool, [])
        checked = tf.debugging.Assert(allowed, ["this time not, äöü"])
    with connected(cluster, crossing) as (session, _):
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="this time not, äöü"):
                session.run([checked, crossing], {allowed: False})
            session.run([checked, crossing], {allowed: True})


def test_a_run_that_is_cancelled_is_cancelled_in_the_other_task_too(cluster: Cluster) -> None:
    crossing, queue = _sum_of_both(), _queue()
    value, put, size = queue.dequeue(), queue.enqueue(tf.constant(5, tf.int64)), queue.size()
    with connected(cluster, crossing) as (session, _):
        for _ in range(5):
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run([value, crossing], options=tf.compat.v1.RunOptions(timeout_in_ms=100))
            session.run(put)
            # None that waits has taken it.
            assert session.run(size) == 1
            assert session.run(value, options=_within(60)) == 5


def test_runs_at_once_have_each_their_own_answer(cluster: Cluster) -> None:
    with tf.device(WORKER):
        number = tf.compat.v1.placeholder(tf.int64, [])
        sent = number + 0
    with tf.device(PS):
        squared = sent * sent
    with tf.device(WORKER):
        found = squared + 0
    wrong: list[int] = []

    def run(first: int) -> None:
        wrong.extend(
            each
            for each in range(first, first + 50)
            if session.run(found, {number: each}) != each * each
        )

    with connected(cluster, found) as (session, _):
        threads = [threading.Thread(target=run, args=(1000 * each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in threads)
    assert not wrong


def test_a_session_of_another_cluster_is_not_taken_for_one_of_this(
    cluster: Cluster, tmp_path: Path
) -> None:
    crossing, queue = _sum_of_both(), _queue("of one")
    one, size = queue.enqueue(tf.constant(1, tf.int64)), queue.size()
    other = Cluster(tmp_path)
    try:
        with (
            connected(cluster, crossing) as (session, _),
            open_session(other.target, crossing.graph, CONFIG) as others,
        ):
            session.run(one)
            assert others.run([size] * 5) == [0] * 5
            assert session.run(size) == 1
    finally:
        other.kill()


def test_the_parts_of_a_client_that_has_died_are_cancelled(cluster: Cluster) -> None:
    crossing, queue, begun = _sum_of_both(), _queue(), _queue("begun").dequeue()
    one, size = queue.enqueue(tf.constant(1, tf.int64)), queue.size()
    client = process(SERVER + WAITS, *cluster.addresses, "worker", "1")
    try:
        with open_session(cluster.target, crossing.graph, CONFIG) as session:
            session.run(begun, options=_within(120))
    finally:
        before = cluster.said.count(CANCELLED)
        client.kill()
        client.wait()
    with connected(cluster, crossing) as (session, _):
        wait_until(lambda: cluster.said.count(CANCELLED) > before)
        session.run(one)
        assert session.run(size) == 1
        assert session.run(queue.dequeue()) == 1


def test_a_run_ends_when_the_other_task_does_and_the_next_session_is_connected_anew(
    cluster: Cluster,
) -> None:
    crossing, value = _sum_of_both(), _queue().dequeue()
    errors: list[Exception] = []

    def run() -> None:
        try:
            session.run([value, crossing])
        except tf.errors.OpError as error:
            errors.append(error)

    with connected(cluster, crossing) as (session, _):
        session.run(crossing)
        thread = threading.Thread(target=run)
        thread.start()
        cluster.kill()
        thread.join(120)
        assert not thread.is_alive()
    assert isinstance(errors[0], (tf.errors.UnavailableError, tf.errors.AbortedError)), errors
    cluster.start()
    wire = own_wire(crossing.graph)
    assert wire is not None
    with open_session(cluster.target, crossing.graph, CONFIG) as session:
        wait_until(lambda: _is_connected(session, wire))
        assert session.run(crossing) == 3
        before = _bytes_to(cluster.addresses[0])
        assert [session.run(crossing) for _ in range(200)] == [3] * 200
        assert _bytes_to(cluster.addresses[0]) - before < 2000


def _is_connected(session: tf.compat.v1.Session, wire: Any) -> bool:
    try:
        session.run(wire.connect, options=_within(20))
    except tf.errors.OpError:
        return False
    return True
