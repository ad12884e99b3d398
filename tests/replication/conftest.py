"""What several tests of this folder need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import tensorflow as tf
    from two_tasks import Cluster


@pytest.fixture(params=[False, True], ids=["ops of TensorFlow", "kernels"])
def graph(request: pytest.FixtureRequest) -> Iterator[tf.Graph]:
    """The current graph, which uses one or the other."""
    import tensorflow as tf

    from psclust.replication import kernels

    with tf.Graph().as_default() as made:
        if request.param:
            kernels.use()
        yield made


@pytest.fixture
def wired_graph() -> Iterator[tf.Graph]:
    """The current graph, which may use psclust's own wire."""
    import tensorflow as tf

    from psclust.replication import kernels
    from psclust.replication.wire.own_wire import allow_own_wire

    with tf.Graph().as_default() as made:
        kernels.use()
        allow_own_wire()
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from two_tasks import Cluster

    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.kill()
