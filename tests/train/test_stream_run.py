"""The thread that runs a stream."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from psclust.replication.sync.actions import Stream
from psclust.replication.sync.stream_run import StreamRun

pytestmark = pytest.mark.tensorflow


class Bench:
    """Streams that note their members, and fail in a round before 100."""

    def __init__(self, session: Any) -> None:
        members = tf.compat.v1.placeholder(tf.int64, [3])
        noted = tf.queue.FIFOQueue(-1, [tf.int64], [[3]])
        failing = tf.raw_ops.Assert(condition=members[0] >= 100, data=["an older round"])
        stream = [noted.enqueue(members), failing]
        ops: Any = SimpleNamespace(workers=2, members=members, stream=stream)
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


def test_the_error_of_a_stream_is_raised_when_it_is_waited_for(bench: Bench) -> None:
    bench.run.do(Stream(99, (0, 1)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="an older round"):
        bench.run.finish()
    assert len(bench.errors) == 1
