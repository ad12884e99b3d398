"""Writing the progress file, see `psclust.rundir.task_progress`. A full disk must not stop the
training, so failures are ignored."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.task_progress import Progress

_INTERVAL_S = 0.5


class ProgressFile:
    """Replaces the file at `path` (None: writes nothing) at most twice a second. A thread does so,
    for which no step waits: it takes 2 ms on a disk, and on a network's file system as long as the
    network does."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._latest: Callable[[], Progress] | None = None
        self._written: Progress | None = None
        self._writing = threading.Lock()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, latest: Callable[[], Progress], *, force: bool = False) -> None:
        """latest: gives the progress when it is written. force: at once, and it is there when this
        returns."""
        if self._path is None:
            return
        self._latest = latest
        if force:
            self._replace(self._path)
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._keep_up, args=(self._path,), name="progress", daemon=True
            )
            self._thread.start()
        self._changed.set()

    def _keep_up(self, path: Path) -> None:
        while self._changed.wait():
            self._changed.clear()
            self._replace(path)
            time.sleep(_INTERVAL_S)

    def _replace(self, path: Path) -> None:
        with self._writing:
            latest = self._latest() if self._latest is not None else None
            if latest is None or latest == self._written:
                return
            self._written = latest
            with suppress(OSError):
                write_atomically(path, latest.to_json())
