"""The thread that runs a stream, with streams that take gradients of one round."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from psclust.replication.sync.actions import Stream
from psclust.replication.sync.stream_run import OTHER_ROUND, StreamRun

pytestmark = pytest.mark.tensorflow


class Bench:
    """Streams that note their members, and take gradients of round 100 alone."""

    def __init__(self, session: Any) -> None:
        members = tf.compat.v1.placeholder(tf.int64, [3])
        noted = tf.queue.FIFOQueue(-1, [tf.int64], [[3]])
        with tf.control_dependencies([noted.enqueue(members)]):
            taken = [tf.constant([100, 100], tf.int64), tf.constant([], tf.int64)]
            stream = [tf.identity(each) for each in taken]
        ops: Any = SimpleNamespace(workers=2, members=members, zeros=[], stream=stream)
        self._session, self._all = session, noted.dequeue_many(noted.size())
        self.errors: list[Exception] = []
        self.run = StreamRun(session, ops, self.errors.append)

    def noted(self) -> list[list[int]]:
        return [list(each) for each in self._session.run(self._all)]


@pytest.fixture
def bench() -> Iterator[Bench]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield Bench(session)


def test_a_stream_is_run_once_for_its_members(bench: Bench) -> None:
    bench.run.do(Stream(100, (1,)))
    bench.run.finish()
    bench.run.finish()
    assert bench.noted() == [[100, 0, 1]]
    assert bench.errors == []


def test_a_stream_that_takes_a_gradient_of_another_round_says_so(bench: Bench) -> None:
    bench.run.do(Stream(101, (0, 1)))
    with pytest.raises(tf.errors.AbortedError, match=OTHER_ROUND):
        bench.run.finish()
    assert len(bench.errors) == 1
