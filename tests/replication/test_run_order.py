"""Runs that are begun while another is under way: every task runs its parts of them one after
another."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
import tensorflow as tf
from two_tasks import CONFIG, PS, WORKER, Cluster, connected

from psclust.replication.wire.run_order import order_runs
from psclust.runtime.kernel_library import await_parts
from psclust.testing.wait import wait_until
from psclust.train.prepared_run import prepare
from psclust.train.session import open_session
from psclust.train.step_runs import RunsAhead

pytestmark = [pytest.mark.tensorflow, pytest.mark.process, pytest.mark.usefixtures("wired_graph")]

_WAIT_S = 60.0
_PARTS = 2  # of a run: the ps's and the worker's


class Gated:
    """A step in a session. Its part on the ps counts itself as begun, and then waits until it is
    let go; its result, on the worker, is how many have been begun by then. It has been made
    once."""

    def __init__(
        self,
        cluster: Cluster,
        session: tf.compat.v1.Session,
        number: int,
        step: Any,
        begun: tf.Tensor,
        put: tuple[tf.Operation, tf.Tensor],
    ) -> None:
        self.session, self.number = session, number
        self._cluster, self._step, self._begun = cluster, step, begun
        self._put, self._value = put
        self._threads = ThreadPoolExecutor(4)

    def make(self) -> int:
        return int(self._step()[0])

    def in_a_thread(self, work: Any) -> Future[Any]:
        return self._threads.submit(work)

    def begin(self) -> Future[int]:
        """One that has been begun in both tasks."""
        before = await_parts(self.number, 0, 0.0)
        made = self._threads.submit(self.make)
        assert await_parts(self.number, before + _PARTS, _WAIT_S) == before + _PARTS
        return made

    def let_one_go(self, *, fail: bool = False) -> None:
        self.session.run(self._put, {self._value: int(fail)})

    def begun(self) -> int:
        """Of the parts on the ps."""
        with open_session(self._cluster.target, self._begun.graph, CONFIG) as session:
            return int(session.run(self._begun))


@contextmanager
def _gated(cluster: Cluster, *, in_order: bool) -> Iterator[Gated]:
    with tf.device(PS):
        begun = tf.compat.v1.get_variable(
            "begun", [], tf.int64, tf.zeros_initializer(), use_resource=True
        )
        tokens = tf.queue.FIFOQueue(-1, [tf.int64], [[]], shared_name="tokens")
        with tf.control_dependencies([begun.assign_add(1, read_value=False)]):
            token = tokens.dequeue()
        with tf.control_dependencies(
            [tf.raw_ops.Assert(condition=tf.equal(token, 0), data=[token])]
        ):
            number = begun.read_value()
        value = tf.compat.v1.placeholder(tf.int64, [])
        put, now = tokens.enqueue(value), begun.read_value()
    with tf.device(WORKER):
        crossing = number + 0
    with connected(cluster, crossing, order_runs if in_order else lambda: None) as (session, order):
        session.run(begun.initializer)
        step = prepare(session, [crossing, *(order.ops if order else ())])
        gated = Gated(cluster, session, order.number if order else 0, step, now, (put, value))
        gated.let_one_go()
        assert gated.make() == 1
        yield gated


def test_a_task_begins_its_part_when_it_has_ended_that_of_the_run_before(cluster: Cluster) -> None:
    with _gated(cluster, in_order=True) as gated:
        runs = [gated.begin() for _ in range(3)]
        for number, run in enumerate(runs, 2):
            wait_until(lambda number=number: gated.begun() == number)  # type: ignore[misc]
            assert not run.done()
            gated.let_one_go()
            assert run.result(_WAIT_S) == number


def test_otherwise_all_parts_begin_at_once(cluster: Cluster) -> None:
    with _gated(cluster, in_order=False) as gated:
        runs = [gated.in_a_thread(gated.make) for _ in range(3)]
        wait_until(lambda: gated.begun() == 4)
        for _ in runs:
            gated.let_one_go()
        assert [run.result(_WAIT_S) for run in runs] == [4, 4, 4]


def test_what_is_cancelled_while_it_waits_never_begins(cluster: Cluster) -> None:
    with _gated(cluster, in_order=True) as gated:
        runs = [gated.begin() for _ in range(3)]
        wait_until(lambda: gated.begun() == 2)
        gated.session.close()
        for run in runs:
            assert isinstance(run.exception(_WAIT_S), tf.errors.OpError)
        assert gated.begun() == 2


def test_what_waits_for_a_part_that_fails_never_begins(cluster: Cluster) -> None:
    with _gated(cluster, in_order=True) as gated:
        first, *others = [gated.begin() for _ in range(3)]
        gated.let_one_go(fail=True)
        assert isinstance(first.exception(_WAIT_S), tf.errors.InvalidArgumentError)
        for run in others:
            assert isinstance(run.exception(_WAIT_S), tf.errors.CancelledError)
        assert gated.begun() == 2
        # It is over with that.
        gated.let_one_go()
        assert gated.make() == 3


def test_a_client_has_two_runs_under_way_and_none_that_it_is_not_to_make(cluster: Cluster) -> None:
    made: list[int] = []

    def make() -> int:
        made.append(gated.make())
        return made[-1]

    with (
        _gated(cluster, in_order=True) as gated,
        closing(RunsAhead(make, gated.number, lambda: () if may_go_on else None)) as runs,
    ):
        may_go_on = True
        gated.let_one_go()
        # How many parts a run has is learnt from one that is alone.
        assert (runs.take(), runs.under_way) == (2, 0)
        for number in (3, 4):
            result = gated.in_a_thread(runs.take)
            wait_until(lambda: runs.under_way == 2)
            gated.let_one_go()
            assert (result.result(_WAIT_S), runs.under_way) == (number, 1)
        may_go_on = False
        gated.let_one_go()
        assert (runs.take(), runs.under_way) == (5, 0)
        assert made == [2, 3, 4, 5]
        # It goes on when it may again.
        may_go_on = True
        gated.let_one_go()
        gated.let_one_go()
        assert [runs.take(), runs.take()] == [6, 7]
        gated.let_one_go()


def _under_way(gated: Gated) -> tuple[RunsAhead, Future[int]]:
    """Runs of which two are under way, and the result of the first."""
    runs = RunsAhead(gated.make, gated.number, tuple)
    gated.let_one_go()
    runs.take()
    result = gated.in_a_thread(runs.take)
    wait_until(lambda: gated.begun() == 3 and runs.under_way == 2)
    return runs, result


def test_runs_that_fail_are_waited_for(cluster: Cluster) -> None:
    with _gated(cluster, in_order=True) as gated, closing(_under_way(gated)[0]) as runs:
        gated.let_one_go(fail=True)
        gated.in_a_thread(runs.drop).result(_WAIT_S)
        assert (gated.begun(), runs.under_way) == (3, 0)


def test_runs_that_are_to_fail_do_not_go_unseen_if_they_do_not(cluster: Cluster) -> None:
    with _gated(cluster, in_order=True) as gated, closing(_under_way(gated)[0]) as runs:
        gated.let_one_go()
        gated.let_one_go()
        assert isinstance(gated.in_a_thread(runs.drop).exception(_WAIT_S), AssertionError)


def test_what_is_under_way_ends_with_its_session_and_nobody_waits_for_it_before(
    cluster: Cluster,
) -> None:
    with _gated(cluster, in_order=True) as gated:
        runs, result = _under_way(gated)
        gated.in_a_thread(runs.close).result(_WAIT_S)
        assert not result.done()
        gated.session.close()
        assert isinstance(result.exception(_WAIT_S), tf.errors.OpError)
