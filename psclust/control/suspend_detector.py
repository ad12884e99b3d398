"""Detects time in which this process did not run: its machine slept, or it was stopped with a
signal."""

from __future__ import annotations

import threading
import time
from weakref import ref

from psclust.agent.lease import clock

_SAMPLE_S = 0.5
_SLOW_S = 2.0  # a longer gap between samples is not just a busy machine


class SuspendDetector:
    """Samples the clock at short intervals; a gap means that the process did not run.
    Thread-safe."""

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._last = now
        self._gaps: list[tuple[float, float]] = []

    def sample(self, now: float) -> None:
        with self._lock:
            if now - self._last > _SLOW_S:
                self._gaps.append((self._last, now))
            self._last = max(self._last, now)

    def suspended_s(self, since: float, now: float) -> float:
        """The part of the time since `since` in which the process did not run."""
        self.sample(now)
        return sum(end - max(begin, since) for begin, end in self._gaps if end > since)


def start_suspend_detector() -> SuspendDetector:
    """A detector that a thread samples until it is garbage-collected."""
    detector = SuspendDetector(clock())
    threading.Thread(
        target=_sample, args=(ref(detector),), name="suspend-detector", daemon=True
    ).start()
    return detector


def _sample(known: ref[SuspendDetector]) -> None:
    while (detector := known()) is not None:
        detector.sample(clock())
        del detector
        time.sleep(_SAMPLE_S)
