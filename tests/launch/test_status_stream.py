"""Waiting for a run's next status."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from psclust.launch.status_stream import StatusStream
from psclust.rundir.status import RunStatus

WAIT_S = 0.1
TOO_LONG_S = 5.0


@pytest.fixture
def slow_handler() -> Iterator[list[int]]:
    """Of a signal that comes within `WAIT_S` and takes longer than that; of a second one, which
    raises. The signals that came."""
    came: list[int] = []

    def handle(number: int, frame: object) -> None:
        came.append(number)
        if len(came) > 1:
            raise TimeoutError("still waiting")
        time.sleep(2 * WAIT_S)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, WAIT_S / 5, TOO_LONG_S)
    yield came
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_wait_ends_though_a_signals_handler_outlasts_it(slow_handler: list[int]) -> None:
    over = threading.Event()

    def none_comes() -> Iterator[RunStatus]:
        over.wait()
        yield from ()

    stream = StatusStream(none_comes())
    try:
        assert stream.latest(WAIT_S) is None
        assert slow_handler == [signal.SIGALRM]
    finally:
        over.set()
