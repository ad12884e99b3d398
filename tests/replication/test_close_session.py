"""A session that TensorFlow does not close in time holds nobody up."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import tensorflow as tf

from psclust.replication.close_session import close

pytestmark = pytest.mark.tensorflow


class _Session:
    """closing: how it closes."""

    def __init__(self, closing: Any) -> None:
        self.close = closing


def test_what_takes_long_is_left_to_a_thread() -> None:
    over, closed = threading.Event(), threading.Event()

    def closing() -> None:
        over.wait()
        closed.set()

    began = time.monotonic()
    close(_Session(closing))
    assert time.monotonic() - began < 10
    assert not closed.is_set()
    over.set()
    assert closed.wait(60)


def test_an_open_session_is_closed_on_return() -> None:
    with tf.Graph().as_default():
        session = tf.compat.v1.Session()
        close(session)
        with pytest.raises(RuntimeError, match="closed Session"):
            session.run(tf.constant(1))


def test_servers_that_are_gone_are_no_error() -> None:
    def closing() -> None:
        raise tf.errors.UnavailableError(None, None, "Socket closed")

    close(_Session(closing))
