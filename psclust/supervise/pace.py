"""How often to repeat work whose cost grows with the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_TIMES = 9  # as long as the work took
_LONGEST_S = 0.5  # also for work during which this process stood still


class Pace:
    """Repeats work every `least_s` seconds, but where it is slow, so much more seldom that it takes
    a tenth of the time, or half a second later: the processes that it is about need the cores."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._due = 0.0

    def wait_s(self) -> float:
        """Seconds until the work is due; 0 if it is."""
        return max(0.0, self._due - time.monotonic())

    @contextmanager
    def working(self) -> Iterator[None]:
        """Around the work."""
        began = time.monotonic()
        yield
        end = time.monotonic()
        self._due = max(began + self._least_s, end + min(_LONGEST_S, _TIMES * (end - began)))
