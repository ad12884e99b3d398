"""A step that has been begun before its token was there: it does nothing if that does not come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import tensorflow as tf

from psclust.replication.sync.barrier_messages import Kind
from psclust.replication.sync.foreseen_token import ForeseenToken

pytestmark = pytest.mark.tensorflow

ROUND, INCARNATION = 100, 7
GO = (Kind.GO, INCARNATION, ROUND + 1, 5)


class Worker:
    """In one session, without a ps: its step counts itself in a variable and takes a batch, whose
    number it returns."""

    def __init__(self, session: tf.compat.v1.Session) -> None:
        self._session = session
        self.round, self.token, self.incarnation, self.stamps = (
            tf.compat.v1.placeholder(tf.int64, shape) for shape in ([], [4], [], [2])
        )
        self.foreseen = ForeseenToken.of(self.round, "")
        count = tf.compat.v1.get_variable(
            "count", [], tf.int64, tf.zeros_initializer(), use_resource=True
        )
        batch = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(9)).get_next()
        counted = count.assign_add(1, read_value=False)
        assert self.foreseen.hold_back([batch.op, counted], self._elsewhere)
        self._step = [
            batch,
            counted,
            self.foreseen.kept(self.token, self.incarnation, [self.stamps]),
        ]
        self.count = count.read_value()
        session.run(
            [
                tf.compat.v1.global_variables_initializer(),
                tf.compat.v1.local_variables_initializer(),
            ]
        )

    @staticmethod
    def _elsewhere(task: str) -> tf.Operation:
        raise AssertionError(f"nothing is on {task}")

    def step(
        self, round_: int, *, foreseen: bool, token: Any = GO, stamps: Any = (ROUND, ROUND)
    ) -> int:
        feeds = {
            self.round: round_,
            self.foreseen.is_foreseen: foreseen,
            self.token: token,
            self.incarnation: INCARNATION,
        }
        return int(self._session.run(self._step, {**feeds, self.stamps: stamps})[0])


@contextmanager
def _worker() -> Iterator[Worker]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield Worker(session)


def test_it_is_made_when_the_token_has_come() -> None:
    with _worker() as worker:
        assert worker.step(ROUND, foreseen=False) == 0
        assert worker.step(ROUND + 1, foreseen=True) == 1


@pytest.mark.parametrize(
    ("token", "stamps"),
    [
        pytest.param((Kind.STOP, *GO[1:]), (ROUND, ROUND), id="the last"),
        pytest.param((Kind.GO, INCARNATION + 1, *GO[2:]), (ROUND, ROUND), id="of another"),
        pytest.param((Kind.GO, INCARNATION, ROUND + 2, 4), (ROUND, ROUND), id="void"),
        pytest.param((Kind.RESYNC, 0, ROUND + 1, 5), (ROUND, ROUND), id="of a new barrier"),
        pytest.param(GO, (ROUND, ROUND - 1), id="copies not up to date"),
    ],
)
def test_otherwise_it_fails_and_does_nothing(token: Any, stamps: Any) -> None:
    with _worker() as worker:
        assert worker.step(ROUND, foreseen=False, token=token, stamps=stamps) == 0
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="the token that was foreseen has not come"
        ):
            worker.step(ROUND + 1, foreseen=True)
        assert worker._session.run(worker.count) == 1
        # With the token it goes on, with the batch that it would have taken.
        assert worker.step(ROUND + 1, foreseen=False) == 1


def test_it_goes_no_further_than_the_step_before_that_failed() -> None:
    with _worker() as worker:
        for _ in range(9):
            worker.step(ROUND, foreseen=False)
        with pytest.raises(tf.errors.OutOfRangeError):
            worker.step(ROUND + 1, foreseen=True)
        with pytest.raises(tf.errors.InvalidArgumentError):
            worker.step(ROUND + 2, foreseen=True)
        assert worker._session.run(worker.count) in (9, 10)


PS = "/job:ps/task:1"


def _reading() -> tuple[ForeseenToken, tf.Operation]:
    """A worker, and the op by which its step reads a variable on a ps."""
    with tf.device(PS):
        variable = tf.compat.v1.get_variable("value", [], use_resource=True)
        read = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=tf.float32)
    return ForeseenToken.of(tf.constant(1, tf.int64), "/job:worker/task:0"), read.op


def test_on_a_ps_it_waits_for_the_report() -> None:
    with tf.Graph().as_default():
        foreseen, read = _reading()
        with tf.device(PS):
            report = tf.no_op()
        assert foreseen.hold_back([read], {PS: report}.__getitem__)
        assert read.control_inputs == [report]


def test_no_step_is_begun_before_if_the_report_waits_for_what_is_to_wait() -> None:
    with tf.Graph().as_default():
        foreseen, read = _reading()
        with tf.device(PS), tf.control_dependencies([read]):
            report = tf.no_op()
        assert not foreseen.hold_back([read], {PS: report}.__getitem__)


def test_no_step_is_begun_before_if_a_loop_does_something_to_state() -> None:
    tf.compat.v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            foreseen, _ = _reading()
            with tf.device("/job:worker/task:0"):
                count = tf.compat.v1.get_variable("count", [], use_resource=True)
                looped = tf.while_loop(
                    lambda turn: turn < 3.0, lambda turn: count.assign_add(1.0) + turn, [0.0]
                )
            assert not foreseen.hold_back([looped[0].op], {}.__getitem__)
    finally:
        tf.compat.v1.enable_control_flow_v2()
