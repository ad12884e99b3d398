"""What several tests of this folder need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf
from two_tasks import Cluster

from psclust.replication import kernels
from psclust.replication.wire.own_wire import allow_own_wire


@pytest.fixture(params=[False, True], ids=["ops of TensorFlow", "kernels"])
def graph(request: pytest.FixtureRequest) -> Iterator[tf.Graph]:
    """The current graph, which uses one or the other."""
    with tf.Graph().as_default() as made:
        if request.param:
            kernels.use()
        yield made


@pytest.fixture
def wired_graph() -> Iterator[tf.Graph]:
    """The current graph, which may use psclust's own wire."""
    with tf.Graph().as_default() as made:
        kernels.use()
        allow_own_wire()
        yield made


@pytest.fixture
def session() -> Iterator[tf.compat.v1.Session]:
    """One in this process, of the current graph."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.kill()
