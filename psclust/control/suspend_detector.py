"""Whether this process stood still, because its machine was suspended or because it was stopped."""

from __future__ import annotations

import threading
import time
from weakref import ref

from psclust.agent.lease import clock

_SAMPLE_S = 0.5
_SLOW_S = 2.0  # between two looks: a busy machine


class SuspendDetector:
    """Somebody looks at the clock all the time; where nobody did, the process stood still. Any thread may ask."""

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
        """For how many seconds since then."""
        self.sample(now)
        return sum(end - max(begin, since) for begin, end in self._gaps if end > since)


def start_suspend_detector() -> SuspendDetector:
    """One that is looked after by a thread, for as long as anybody has it."""
    detector = SuspendDetector(clock())
    threading.Thread(target=_sample, args=(ref(detector),), name="suspend-detector", daemon=True).start()
    return detector


def _sample(known: ref[SuspendDetector]) -> None:
    while (detector := known()) is not None:
        detector.sample(clock())
        del detector
        time.sleep(_SAMPLE_S)
