"""Whether this process stood still, because its machine was suspended or because it was stopped."""

from __future__ import annotations

import threading
import time
from weakref import ref

from psclust.agent.lease import clock

_LOOK_S = 0.5
_SLOW_S = 2.0  # between two looks: a busy machine


class Awake:
    """Somebody looks at the clock all the time; where nobody did, the process stood still. Any thread may ask."""

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._last = now
        self._gaps: list[tuple[float, float]] = []

    def look(self, now: float) -> None:
        with self._lock:
            if now - self._last > _SLOW_S:
                self._gaps.append((self._last, now))
            self._last = max(self._last, now)

    def asleep(self, since: float, now: float) -> float:
        """For how many seconds since then."""
        self.look(now)
        return sum(end - max(begin, since) for begin, end in self._gaps if end > since)


def watch() -> Awake:
    """One that is looked after by a thread, for as long as anybody has it."""
    awake = Awake(clock())
    threading.Thread(target=_look, args=(ref(awake),), name="awake", daemon=True).start()
    return awake


def _look(known: ref[Awake]) -> None:
    while (awake := known()) is not None:
        awake.look(clock())
        del awake
        time.sleep(_LOOK_S)
