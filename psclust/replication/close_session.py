"""Ends a TensorFlow session without waiting for what TensorFlow may have lost."""

from __future__ import annotations

import _thread
import logging
import threading

import tensorflow as tf

from psclust.replication.tf_types import Session

LOG = logging.getLogger(__name__)

_CLOSE_S = 1.0


def close(session: Session) -> None:
    """Closes a session and cancels its running calls, even if its servers are gone. Returns after
    a second at the latest; a thread does what takes longer.

    One session in ten that reads a tf.data iterator takes as long as the period of the iterator's
    tuning thread, up to a minute, or, where the clock was set back, until it is that time again:
    CancellationManager wakes the thread first, and is cancelled afterwards.
    """
    closed = threading.Event()

    def work() -> None:
        try:
            session.close()
        except tf.errors.OpError as error:
            LOG.debug("closing a session: %s", error)
        finally:
            closed.set()

    try:
        # Thread.start waits for ever for a thread that finds no memory to begin.
        _thread.start_new_thread(work, ())
    except RuntimeError:  # not even for its stack
        work()
    if not closed.wait(_CLOSE_S):
        LOG.debug("a session is still closing after %g s", _CLOSE_S)
