"""Writing the progress file, see `psclust.rundir.task_progress`. A full disk must not stop the training, so failures are ignored."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.task_progress import Progress

_INTERVAL_S = 0.5


class ProgressFile:
    """Replaces the file at `path` (None: writes nothing) at most twice a second."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._next = 0.0

    def write(self, progress: Progress, *, force: bool = False) -> None:
        now = self._clock()
        if self._path is None or (now < self._next and not force):
            return
        self._next = now + _INTERVAL_S
        with suppress(OSError):
            write_atomically(self._path, progress.to_json())
