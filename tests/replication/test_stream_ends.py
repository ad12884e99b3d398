"""An update that waits for the end of a stream, of which the first ps is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication.sync.barrier_messages import Kind, Message, Update, encode_update
from psclust.replication.sync.foreseen_update import decide, decode_update
from psclust.replication.sync.stream_ends import StreamEnds
from psclust.replication.variables.cell import Cell, cell
from psclust.testing.wait import PATIENCE_S

pytestmark = pytest.mark.tensorflow

CPU = "/device:CPU:0"


@pytest.fixture
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield session


@pytest.fixture
def tag(session: Any) -> Cell:
    """Of a stream of round 100."""
    made = cell("tag", tf.int64, [], CPU)
    session.run(made.set(tf.constant(100, tf.int64)))
    return made


def _told(ends: StreamEnds, round_: int, *taken: int) -> Any:
    return ends.tell(tf.constant(round_, tf.int64), [tf.constant(taken, tf.int64)])[0]


def test_it_waits_for_the_end(session: Any, tag: Cell) -> None:
    ends = StreamEnds.on(CPU)
    session.run(_told(ends, 100, 100, 100))
    session.run(ends.await_one(tag))
    assert session.run(ends.rounds.size()) == 0


def test_it_is_not_told_of_a_stream_that_took_a_gradient_of_another_round(
    session: Any, tag: Cell
) -> None:
    ends = StreamEnds.on(CPU)
    session.run(_told(ends, 100, 100, 99))
    assert session.run(ends.rounds.size()) == 0


def test_the_end_of_another_stream_fails_it(session: Any, tag: Cell) -> None:
    ends = StreamEnds.on(CPU)
    session.run(_told(ends, 99, 99))
    with pytest.raises(tf.errors.InvalidArgumentError, match="the stream of an earlier chief"):
        session.run(ends.await_one(tag))


def test_what_an_earlier_chief_left_waiting_fails_and_takes_no_later_word(
    session: Any, tag: Cell
) -> None:
    ends = StreamEnds.on(CPU)
    waiting, failed, end = ends.await_one(tag), ends.fail([]), _told(ends, 100, 100)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            session.run(waiting)
        except tf.errors.InvalidArgumentError as error:
            errors.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    session.run(failed)
    thread.join(PATIENCE_S)
    session.run(end)
    assert (len(errors), session.run(ends.rounds.size())) == (1, 1)


def test_what_waits_for_nothing_is_forgotten(session: Any, tag: Cell) -> None:
    ends = StreamEnds.on(CPU)
    session.run(ends.fail([]))
    session.run(ends.forget())
    assert session.run(ends.rounds.size()) == 0


@pytest.mark.parametrize(("fence", "goes"), [(100, 1), (101, 0)])
def test_an_update_behind_the_fence_is_not_made_though_its_messages_come(
    session: Any, fence: int, goes: int
) -> None:
    order = tf.constant(
        encode_update(
            Update(8, 1, {0: 1}, {}, wanted=0), 1, [Message(Kind.GRADIENT, 0, 10, 100, 1)]
        )
    )
    came = tf.constant([[int(Kind.GRADIENT), 0, 10, 100, 8]], tf.int64)
    decision = decide(
        decode_update(order, 1),
        1,
        lambda count: came[:count],
        lambda round_: tf.constant(fence, tf.int64) <= round_,
    )
    assert np.asarray(session.run(decision.answer)).tolist() == [goes, 1, 0, 10, 100, 8]
