"""What others than the cluster's tasks do at the port of psclust's wire, and tasks that lie."""

from __future__ import annotations

import os
import resource
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from two_tasks import CONFIG, PS, WORKER, Cluster, connected

from psclust.runtime.kernel_library import python_ops
from psclust.testing.wait import wait_until
from psclust.train.session import open_session

pytestmark = [pytest.mark.tensorflow, pytest.mark.process]

MAGIC = 0x3165726977637370
FLOAT, INT32, STRING = 1, 3, 7
STRANGERS, SHAKE_S = 64, 10  # as in wire.c
OWN_DESCRIPTORS = 500  # of the process that runs the test, at most
SLACK = 10  # descriptors that TensorFlow itself takes meanwhile


@pytest.fixture
def steps(cluster: Cluster, wired_graph: tf.Graph) -> Iterator[Steps]:
    with tf.device(PS):
        given = tf.compat.v1.placeholder(tf.float32, [])
        sent = given * 2
        ticket = python_ops().psclust_listen(own="ps:0")
    with tf.device(WORKER):
        back = sent + 1
    with connected(cluster, back) as (session, _):
        yield Steps(cluster, session, given, back, session.run(ticket).tolist())


class Steps:
    """Makes steps in which the ps sends. port, secret: of its wire."""

    def __init__(
        self, cluster: Cluster, session: Any, given: Any, back: Any, ticket: list[int]
    ) -> None:
        self.cluster, self._session, self._given, self._back = cluster, session, given, back
        self.port, *self.secret = ticket

    def make(self) -> float:
        """The seconds that one takes."""
        began = time.monotonic()
        options = tf.compat.v1.RunOptions(timeout_in_ms=20_000)
        assert self._session.run(self._back, {self._given: 5}, options=options) == 11
        return time.monotonic() - began

    def dial(self, source: str = "127.0.0.1") -> socket.socket:
        dialling = socket.socket()
        # Thousands of ports that are in use, or wait to be used again, must not be in the way of
        # servers of other tests, which listen on every interface.
        dialling.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        dialling.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        dialling.settimeout(20)
        dialling.bind((source, 0))
        dialling.connect(("127.0.0.1", self.port))
        return dialling

    def greeted(self, name: bytes = b"worker:7") -> socket.socket:
        peer = self.dial()
        peer.sendall(
            struct.pack("3q", MAGIC, *self.secret)
            + name.ljust(64, b"\0")
            + b"ps:0".ljust(64, b"\0")
        )
        assert peer.recv(1) == b"\0"
        return peer


def _descriptors(pid: int) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{pid}/fd")]


def _cpu_s(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def _is_closed(peer: socket.socket) -> bool:
    peer.settimeout(20)
    with suppress(ConnectionResetError):
        return peer.recv(1) == b""
    return True


@contextmanager
def _most_descriptors(pid: int, count: int) -> Iterator[None]:
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _crowd(steps: Steps, stack: ExitStack, count: int) -> list[socket.socket]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
    # From several addresses, as if they were of several machines.
    crowd = [stack.enter_context(steps.dial(f"127.0.0.{2 + n % 9}")) for n in range(count)]
    for stranger in crowd[::2]:
        with suppress(OSError):
            stranger.sendall(b"x")
    return crowd


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_thousands_of_strangers_at_once_neither_stop_nor_slow_nor_grow_a_run(
    steps: Steps, count: int
) -> None:
    pid = steps.cluster.pid
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - OWN_DESCRIPTORS
    if most < count:
        pytest.skip(f"this machine has a process hold {most} connections: raise `ulimit -Hn`")
    alone_s = statistics.median(steps.make() for _ in range(50))
    before, memory = len(_descriptors(pid)), _memory(pid)
    with ExitStack() as stack:
        crowd = _crowd(steps, stack, count)
        wait_until(
            lambda: len(_descriptors(pid)) <= before + STRANGERS + SLACK,
            what="the end of most strangers",
        )
        assert _is_closed(crowd[0])
        assert statistics.median(steps.make() for _ in range(50)) < 3 * alone_s + 0.02
        assert _memory(pid) < memory + 20_000_000
        # Another task is let in all the same.
        stack.enter_context(steps.greeted())
    wait_until(lambda: len(_descriptors(pid)) <= before + SLACK, what="the end of all strangers")


@pytest.mark.long
@pytest.mark.parametrize("said", [b"", b"x" * 100])
def test_who_does_not_say_who_it_is_is_shown_the_door(steps: Steps, said: bytes) -> None:
    with steps.dial() as stranger:
        began = time.monotonic()
        stranger.sendall(said)
        assert _is_closed(stranger)
        assert SHAKE_S - 1 < time.monotonic() - began < SHAKE_S + 5


def test_without_descriptors_a_task_neither_spins_nor_stops(steps: Steps) -> None:
    pid = steps.cluster.pid
    steps.make()
    with ExitStack() as stack:
        peer = stack.enter_context(steps.greeted())
        most = max(_descriptors(pid)) + 1
        # No steps: TensorFlow ends its process if it cannot open /dev/urandom.
        stack.enter_context(_most_descriptors(pid, most))
        _crowd(steps, stack, STRANGERS)
        wait_until(lambda: len(_descriptors(pid)) == most, what="a ps without descriptors")
        cpu_s = _cpu_s(pid)
        time.sleep(1)  # what is measured is what it does meanwhile
        assert _cpu_s(pid) - cpu_s < 0.3
        peer.sendall(b"\xff" * 200)
        assert _is_closed(peer)
    # There is room again.
    steps.greeted().close()
    steps.make()


def _frame(
    shape: list[int], size: int, *, dtype: int = FLOAT, key: int = 1, count: int | None = None
) -> bytes:
    """The head of one."""
    rank = len(shape) if count is None else count
    return struct.pack("2q q 8q 2i", 9, key, size, *(shape + [0] * 8)[:8], dtype, rank)


@pytest.mark.parametrize(
    "said",
    [
        _frame([1], 1 << 62),
        _frame([1 << 60], 1 << 62),
        _frame([1 << 50], 1 << 52),
        _frame([2], -8),
        _frame([-2], -8),
        _frame([-1, -2], 8),
        _frame([1 << 62, 1 << 62, 0], 0),
        _frame([1 << 32, 1 << 32], 0),
        _frame([1 << 62, 4], 0),
        _frame([3], 8),
        _frame([1], 0),
        _frame([1] * 8, 4, count=9),
        _frame([], 4, count=-1),
        _frame([], 4, count=1 << 30),
        _frame([2], 8, dtype=STRING),
        _frame([2], 8, dtype=20),
        _frame([2], 8, dtype=101),
        _frame([2], 8, dtype=-1),
        _frame([2], 8, dtype=0),
        _frame([2], 8, key=-1),
        b"\xff" * 200,
    ],
)
def test_a_task_that_claims_what_cannot_be_is_cut_off(steps: Steps, said: bytes) -> None:
    memory = _memory(steps.cluster.pid)
    with steps.greeted() as peer:
        peer.sendall(said)
        assert _is_closed(peer)
    assert _memory(steps.cluster.pid) < memory + 50_000_000
    steps.make()


def test_a_task_that_is_sent_another_dtype_than_it_waits_for_says_so(steps: Steps) -> None:
    with tf.Graph().as_default() as graph, tf.device(PS):
        wait = python_ops().psclust_receive(T=tf.float32, own="ps:0", peer="worker:7", key=3)
        told = python_ops().psclust_send(1.0, own="ps:0", peer="worker:7", key=4)
        held = tf.abs(wait)
    with steps.greeted() as peer, open_session(steps.cluster.target, graph, CONFIG) as session:

        def lie() -> None:  # what it is sent says which run it is
            step = struct.unpack_from("q", peer.recv(96 + 4, socket.MSG_WAITALL))[0]
            peer.sendall(struct.pack("2q q 8q 2i", step, 3, 8, 2, *[0] * 7, INT32, 1) + b"\0" * 8)

        thread = threading.Thread(target=lie)
        thread.start()
        # Where two tasks tell of it, TensorFlow's Python cannot read the message: a ValueError.
        with pytest.raises((tf.errors.OpError, ValueError)):
            session.run([held, told], options=tf.compat.v1.RunOptions(timeout_in_ms=20_000))
        thread.join()
    steps.make()
