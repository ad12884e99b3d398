"""Who makes a stream: a step of the chief's own replica, or a thread; never both, and never
nobody."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from psclust.replication.sync.barrier_actions import Stream
from psclust.train.sync.stream_run import OTHER_ROUND, StreamRun

pytestmark = pytest.mark.tensorflow


class Bench:
    """Streams that note their rounds, and take gradients of round 100 alone."""

    def __init__(self, session: Any) -> None:
        order = tf.compat.v1.placeholder(tf.int64, [3])
        rounds = tf.queue.FIFOQueue(-1, [tf.int64], [[]])
        ops: Any = SimpleNamespace(
            workers=2,
            orders=[order],
            zeros=[],
            stream=[rounds.enqueue(order[0]), tf.equal(order[0], 100)],
        )
        self._session, self._all = session, rounds.dequeue_many(rounds.size())
        self.errors: list[Exception] = []
        self.run = StreamRun(session, ops, self.errors.append)

    def by_thread(self) -> list[int]:
        return list(self._session.run(self._all))


@pytest.fixture
def bench() -> Iterator[Bench]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield Bench(session)


def test_a_stream_that_a_step_makes_is_not_begun_by_a_thread_as_well(bench: Bench) -> None:
    bench.run.do(Stream(100, (0, 1)))
    bench.run.await_step(lambda: True)
    bench.run.start()
    bench.run.finish()
    assert bench.by_thread() == []


def test_a_thread_makes_what_no_step_has_begun(bench: Bench) -> None:
    bench.run.do(Stream(100, (0, 1)))
    bench.run.await_step(lambda: False)
    bench.run.finish()
    bench.run.finish()
    assert bench.by_thread() == [100]


def test_what_a_step_has_made_is_over(bench: Bench) -> None:
    bench.run.do(Stream(100, (0, 1)))
    bench.run.made()
    bench.run.finish()
    assert bench.by_thread() == []


def test_a_thread_that_takes_a_gradient_of_another_round_says_so(bench: Bench) -> None:
    bench.run.do(Stream(101, (0, 1)))
    with pytest.raises(tf.errors.AbortedError, match=OTHER_ROUND):
        bench.run.finish()
    assert len(bench.errors) == 1
