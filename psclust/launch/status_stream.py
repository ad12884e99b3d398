"""The statuses of a run as they come, for a caller that must not block."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable

from psclust.rundir.status import RunStatus


class StatusStream:
    """Reads `statuses` on a thread of its own."""

    def __init__(self, statuses: Iterable[RunStatus]) -> None:
        # Not a SimpleQueue: its `get` waits for ever if a signal comes and the handler returns
        # after the timeout.
        self._queue: queue.Queue[RunStatus] = queue.Queue()
        self._done = threading.Event()
        threading.Thread(target=self._read, args=(statuses,), name="statuses", daemon=True).start()

    @property
    def over(self) -> bool:
        return self._done.is_set() and self._queue.empty()

    def latest(self, timeout_s: float) -> RunStatus | None:
        """The newest status since the last call; None if none comes in time."""
        try:
            status = self._queue.get(timeout=timeout_s)
            while not self._queue.empty():
                status = self._queue.get()
        except queue.Empty:
            return None
        return status

    def _read(self, statuses: Iterable[RunStatus]) -> None:
        for status in statuses:
            self._queue.put(status)
        self._done.set()
