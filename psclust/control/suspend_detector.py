"""Detects time in which this process did not run: its machine slept, or it was stopped with a
signal."""

from __future__ import annotations

import threading
import time

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
    """A detector that a thread samples for as long as this process lives."""
    detector = SuspendDetector(clock())

    def sample() -> None:
        while True:
            detector.sample(clock())
            time.sleep(_SAMPLE_S)

    threading.Thread(target=sample, name="suspend-detector", daemon=True).start()
    return detector
