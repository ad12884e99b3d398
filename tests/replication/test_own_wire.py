"""psclust's own wire between tasks, here two servers in this process."""

from __future__ import annotations

import multiprocessing
import os
import socket
import struct
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest
import tensorflow as tf

from beds.free_ports import free_ports
from psclust.replication.graph_walk import before
from psclust.replication.passes.crossings import use_own_wire
from psclust.replication.wire.own_wire import connect_by, own_wire
from psclust.runtime.kernel_library import python_ops
from psclust.train.session import open_session

pytestmark = pytest.mark.tensorflow

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


class Pair(NamedTuple):
    address: str
    target: str


@pytest.fixture(scope="module")
def pair() -> Pair:
    port = free_ports(2)
    addresses = {"ps": [f"127.0.0.1:{port}"], "worker": [f"127.0.0.1:{port + 1}"]}
    # Servers cannot be ended within a process.
    tf.distribute.Server(addresses, "ps", 0)
    return Pair(addresses["ps"][0], tf.distribute.Server(addresses, "worker", 0).target)


@pytest.fixture
def graph(wired_graph: tf.Graph) -> tf.Graph:
    return wired_graph


def _connected(pair: Pair, graph: tf.Graph) -> Any:
    """A session of the graph, and all that crosses in it by the own wire."""
    use_own_wire()
    connect_by(lambda device: pair.address)
    return open_session(pair.target, graph, tf.compat.v1.ConfigProto(allow_soft_placement=True))


def _run(session: tf.compat.v1.Session, *fetches: Any, feed: Any = None) -> Any:
    wire = own_wire(session.graph)
    assert wire is not None
    assert wire.connect is not None
    session.run(wire.connect)
    # A run that hangs fails.
    return session.run(list(fetches), feed, options=tf.compat.v1.RunOptions(timeout_in_ms=20_000))


def _there(value: Any, device: str) -> tf.Tensor:
    with tf.device(device):
        return tf.identity(value)


FLOATS = ["float32", "float64", "bfloat16", "float16"]
INTEGERS = ["int8", "uint8", "int16", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_a_value_goes_there_and_back_as_it_is(pair: Pair, graph: tf.Graph, dtype: str) -> None:
    numbers = np.arange(24).reshape([2, 3, 4])
    value = numbers % 2 if dtype == "bool" else numbers - (dtype[0] != "u")
    with tf.device(WORKER):
        sent = tf.cast(tf.constant(value), dtype)
    back = _there(_there(_there(sent, WORKER), PS), WORKER)
    with _connected(pair, graph) as session:
        (found,) = _run(session, back)
    assert len(own_wire(graph).sends) == 2  # type: ignore[union-attr]
    np.testing.assert_array_equal(found.astype(np.float64), value.astype(np.float64))


@pytest.mark.parametrize("shape", [[], [0], [3, 0, 2], [1] * 8, [1 << 20, 5]])
def test_any_shape_travels_also_one_that_is_not_known_before(
    pair: Pair, graph: tf.Graph, shape: list[int]
) -> None:
    with tf.device(WORKER):
        size = tf.compat.v1.placeholder_with_default(tf.constant(shape, tf.int32), [len(shape)])
        sent = tf.random.stateless_uniform(size, seed=[1, 2])
    back = _there(_there(sent, PS), WORKER)
    with _connected(pair, graph) as session:
        before, after = _run(session, sent, back)
    assert after.shape == tuple(shape)
    np.testing.assert_array_equal(before, after)


def test_more_dimensions_than_it_takes_travel_by_tensorflows(pair: Pair, graph: tf.Graph) -> None:
    with tf.device(WORKER):
        sent = tf.ones([1] * 9)
    _there(sent, PS)
    use_own_wire()
    assert own_wire(graph) is None


def test_a_small_constant_is_in_each_task_that_needs_it(pair: Pair, graph: tf.Graph) -> None:
    with tf.device(WORKER):
        small, large = tf.constant([1.5, 2.5]), tf.constant(np.arange(100.0))
    users = _there(small, PS), _there(large, PS)
    with _connected(pair, graph) as session:
        found = _run(session, *users)
    assert len(own_wire(graph).sends) == 1  # type: ignore[union-attr]
    assert users[0].op.inputs[0].op.device == tf.DeviceSpec.from_string(PS).to_string()
    np.testing.assert_array_equal(found[0], [1.5, 2.5])
    np.testing.assert_array_equal(found[1], np.arange(100.0))


def test_the_order_of_ops_in_two_tasks_holds(pair: Pair, graph: tf.Graph) -> None:
    with tf.device(PS):
        count = tf.compat.v1.Variable(0, use_resource=True)
        added = count.assign_add(1, read_value=False)
    with tf.device(WORKER), tf.control_dependencies([added]):
        passed = tf.identity(tf.constant(0))
    with tf.device(PS), tf.control_dependencies([passed]):
        seen = count.read_value()
    with _connected(pair, graph) as session:
        session.run(count.initializer)
        found = [_run(session, seen)[0] for _ in range(20)]
    # No edge between the tasks is left to TensorFlow.
    assert len(own_wire(graph).sends) == 2  # type: ignore[union-attr]
    assert found == list(range(1, 21))


def test_a_run_that_fails_in_one_task_does_not_wait_for_its_messages_in_the_other(
    pair: Pair, graph: tf.Graph
) -> None:
    with tf.device(PS):
        allowed = tf.compat.v1.placeholder(tf.bool, [])
        with tf.control_dependencies([tf.debugging.Assert(allowed, ["this time not"])]):
            value = tf.constant(7.0) + 0
    received = _there(value, WORKER)
    with _connected(pair, graph) as session:
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="this time not"):
                _run(session, received, feed={allowed: False})
            assert _run(session, received, feed={allowed: True}) == [7]


def test_a_run_that_is_cancelled_while_a_value_comes_does_no_harm(
    pair: Pair, graph: tf.Graph
) -> None:
    count = 25_000_000
    with tf.device(PS):
        value = tf.compat.v1.placeholder_with_default(3.0, []) * tf.ones([count])
    with tf.device(WORKER):
        whole = tf.raw_ops.Empty(shape=[count], dtype=tf.float32, init=False)
        with tf.control_dependencies(
            [python_ops().psclust_place(whole, value, [], at=0, count=count, block=1024)]
        ):
            least, most = tf.reduce_min(whole), tf.reduce_max(whole)
    with _connected(pair, graph) as session:
        assert _run(session, least, most) == [3, 3]
        for wait in (1, 20, 40, 60, 80, 100):
            with suppress(tf.errors.DeadlineExceededError):
                session.run([least, most], options=tf.compat.v1.RunOptions(timeout_in_ms=wait))
        assert _run(session, least, most) == [3, 3]


def test_a_run_sends_what_it_receives_and_nothing_that_is_fed(pair: Pair, graph: tf.Graph) -> None:
    with tf.device(WORKER):
        one, other = tf.constant(1.0) + 0, tf.constant(2.0) + 0
    first, second = _there(one, PS) * 2, _there(other, PS) * 2
    use_own_wire()
    wire = own_wire(graph)
    assert wire is not None
    assert [send.inputs[0].op.name for send in wire.sends_of(graph, [first])] == [one.op.name]
    assert {
        send.inputs[0].op.name for send in wire.sends_of(graph, [first.op, second.name, "no op"])
    } == {one.op.name, other.op.name}
    assert not wire.sends_of(graph, [first], [first.op.inputs[0]])
    assert not wire.sends_of(graph, [first], [first])


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 20,
        struct.pack("3q", 0x3165726977637370, 1, 2) + b"worker:0".ljust(128, b"\0"),
    ],
)
def test_a_stranger_is_shown_the_door(pair: Pair, graph: tf.Graph, said: bytes) -> None:
    with tf.device(PS):
        ticket = python_ops().psclust_listen(own="ps:0")
    with open_session(pair.target, graph, None) as session:
        port, *secret = session.run(ticket)
        assert session.run(ticket).tolist() == [port, *secret]
    with socket.create_connection(("127.0.0.1", int(port)), timeout=20) as stranger:
        stranger.sendall(said)
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b""


def test_its_connections_use_cubic_where_the_kernel_allows_it(pair: Pair, graph: tf.Graph) -> None:
    with socket.socket() as own:
        try:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        except OSError:
            pytest.skip("this user may not choose cubic: net.ipv4.tcp_allowed_congestion_control")
    with tf.device(PS):
        ticket = python_ops().psclust_listen(own="ps:0")
    with tf.device(WORKER):
        sent = tf.constant(5.0) + 0
    received = _there(sent, PS)
    with _connected(pair, graph) as session:
        assert _run(session, received) == [5]
        port = session.run(ticket).tolist()[0]
    # Both ends are in this process.
    assert _congestion_controls(port) == ["cubic", "cubic"]


def _congestion_controls(port: int) -> list[str]:
    """Of this process's connections from and to `port`."""
    found = []
    for each in psutil.Process().net_connections("tcp"):
        if each.raddr and port in (each.laddr.port, each.raddr.port):
            with socket.socket(fileno=os.dup(each.fd)) as sock:
                used = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                found.append(used.rstrip(b"\0").decode())
    return found


def test_a_task_that_has_no_connection_says_so(pair: Pair, graph: tf.Graph) -> None:
    with tf.device(WORKER):
        received = python_ops().psclust_receive(T=tf.float32, own="worker:0", peer="ps:9", key=0)
        sent = python_ops().psclust_send(1.0, own="worker:0", peer="ps:9", key=0)
    with open_session(pair.target, graph, None) as session:
        for op in received, sent:
            with pytest.raises(tf.errors.AbortedError, match="there is no connection to"):
                session.run(op)


def test_a_process_that_forks_has_children_with_wires_of_their_own(
    pair: Pair, graph: tf.Graph
) -> None:
    with tf.device(PS):
        ticket = python_ops().psclust_listen(own="ps:0")
    with tf.device(WORKER):
        sent = tf.constant(5.0) + 0
    received = _there(sent, PS)

    def child() -> None:
        # TensorFlow itself is of no use there: its servers, and the pool that sessions of this
        # process share, have lost their threads.
        config = tf.compat.v1.ConfigProto(use_per_session_threads=True)
        with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as alone:
            first, second = (
                alone.run(python_ops().psclust_listen(own="ps:0")).tolist() for _ in range(2)
            )
        os._exit(0 if first == second != ours and first[0] != ours[0] else 1)

    with _connected(pair, graph) as session:
        assert _run(session, received) == [5]
        ours = session.run(ticket).tolist()
        codes: list[int | None] = []
        # A thread of this process may hold a lock of TensorFlow's at the moment of a fork, and the
        # child waits for it for ever.
        while not codes or (codes[-1] is None and len(codes) < 3):
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join(30)
            codes.append(process.exitcode)
            process.kill()
        assert codes[-1] == 0
        # The connections are still the parent's.
        assert _run(session, received) == [5]


def test_what_a_switch_holds_back_travels_by_tensorflows_wire(pair: Pair, graph: tf.Graph) -> None:
    with tf.device(PS):
        goes = tf.compat.v1.placeholder(tf.bool, [])
        count = tf.compat.v1.Variable(0, use_resource=True, dtype=tf.int64, name="counted")
        always = tf.compat.v1.placeholder_with_default(tf.ones([5], tf.int64), [5])
        _, value = tf.raw_ops.Switch(data=always, pred=goes)
    with tf.device(WORKER):
        perhaps, other = tf.negative(value), tf.negative(always)
    with tf.device(PS):
        # Runs only if it gets what it waits for.
        total = tf.reduce_sum(perhaps) + tf.reduce_sum(other)
        counted = count.assign_add(total, read_value=False)
    with _connected(pair, graph) as session:
        session.run(count.initializer)
        for go in (True, False, True, True, False):
            _run(session, counted, feed={goes: go})
        assert session.run(count.value()) == 3 * -10
    crossing = [
        (one.type, operation.type)
        for operation in graph.get_operations()
        for one in before(operation)
        if {one.device, operation.device} == {PS, WORKER} and operation.type != "PsclustConnect"
    ]
    assert sorted(crossing) == [("Neg", "Sum"), ("Switch", "Neg")]
