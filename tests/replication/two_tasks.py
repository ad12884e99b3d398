"""A cluster of two tasks, for tests of what goes from one to the other: a ps, which is a process of
its own, and a worker in this one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import tensorflow as tf

from beds.free_ports import free_ports
from psclust.replication.passes.crossings import use_own_wire
from psclust.replication.wire.own_wire import connect_by, own_wire
from psclust.train.session import open_session

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
CONFIG = tf.compat.v1.ConfigProto(allow_soft_placement=True, device_filters=[PS, WORKER])
_LATE_S = 120.0
_Added = TypeVar("_Added")
SERVER = """
import sys
import tensorflow as tf
from psclust.runtime.kernel_library import python_ops
ops = python_ops()
ps, *workers, job, index = sys.argv[1:]
server = tf.distribute.Server({"ps": [ps], "worker": workers}, job, int(index))
"""
SERVES = SERVER + "server.join()"


class Cluster:
    """A ps in a process of its own, and worker:0 in this one, which can begin but once; room for a
    worker:1. said: what the ps logs."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        port = free_ports(3)
        self.addresses = [f"127.0.0.1:{port + index}" for index in range(3)]
        self.start()
        self.target = tf.distribute.Server(
            {"ps": self.addresses[:1], "worker": self.addresses[1:]}, "worker", 0
        ).target

    def start(self) -> None:
        with self._log.open("wb") as log:
            self._ps = process(SERVES, *self.addresses, "ps", "0", stderr=log)

    def kill(self) -> None:
        self._ps.kill()
        self._ps.wait()

    def start_anew(self) -> None:
        self.kill()
        self.start()

    @property
    def pid(self) -> int:
        """Of the ps."""
        return self._ps.pid

    @property
    def said(self) -> str:
        return self._log.read_text()


def process(program: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"},
        **options,
    )


@contextmanager
def connected(
    cluster: Cluster, crossing: tf.Tensor, add: Callable[[], _Added] = lambda: None
) -> Iterator[tuple[tf.compat.v1.Session, _Added]]:
    """A session of the current graph, connected by another, as a training's is, and what `add` adds
    to the graph when it has its wire. crossing: what goes from the worker to the ps, or back."""
    use_own_wire()
    added = add()
    connect_by(lambda device: cluster.addresses[0])
    wire = own_wire(crossing.graph)
    assert wire is not None
    with open_session(cluster.target, crossing.graph, CONFIG) as setup:
        setup.run(wire.connect)
    # A run that waits there for ever would keep the session from closing, and the test from
    # failing.
    late = threading.Timer(_LATE_S, cluster.start_anew)
    late.start()
    try:
        with open_session(cluster.target, crossing.graph, CONFIG) as session:
            yield session, added
    finally:
        late.cancel()
