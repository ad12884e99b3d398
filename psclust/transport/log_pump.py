"""From pipes to log files: one thread copies the output of every task, byte for byte, so that a
flood neither stalls a task nor loses a line, and notes when. When the disk is full, tasks go on;
lost bytes are counted, and the last of them stay in memory for display."""

from __future__ import annotations

import os
import selectors
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from psclust.rundir.log_times import INTERVAL_S, TimesWriter
from psclust.transport.api import Output

_CHUNK = 1 << 20
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


@dataclass(eq=False)
class Sink:
    """times: None for a file that is not a log of its own. size: bytes written to the log."""

    source: int
    target: Path | int
    file: int | None
    times: TimesWriter | None = None
    size: int = 0
    output: Output = field(default_factory=Output)
    ended: threading.Event = field(default_factory=threading.Event)


class LogPump:
    """Copies pipes to files until each pipe's last writer is gone."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._closing = False
        self._untimed: set[TimesWriter] = set()  # of logs whose last bytes have no time yet
        self._thread = threading.Thread(target=self._run, name="log-pump", daemon=True)
        self._thread.start()

    def add(self, target: Path | int) -> tuple[int, Sink]:
        """Open a pipe into a file or file descriptor; returns its write end, which the caller
        closes once the task has it, and its sink."""
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read, False)
        file = _open(target)
        sink = Sink(read, target, file, TimesWriter(target) if isinstance(target, Path) else None)
        sink.size = os.fstat(file).st_size if file is not None else 0
        self._selector.register(read, selectors.EVENT_READ, sink)
        self._wake()
        return write, sink

    def close(self) -> None:
        self._closing = True
        self._wake()
        self._thread.join()

    def _wake(self) -> None:
        os.write(self._wake_write, b"x")

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(self._patience_s()):
                if key.data is None:
                    os.read(self._wake_read, 4096)
                else:
                    self._copy(key.data)
            self._flush_times()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                self._copy(key.data)
                self._end(key.data)

    def _copy(self, sink: Sink) -> None:
        try:
            data = os.read(sink.source, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._end(sink)
            return
        if sink.file is None and isinstance(sink.target, Path):
            sink.file = _open(sink.target)
        kept = _write(sink.file, data)
        sink.output = sink.output.plus(data, kept)
        sink.size += kept
        if sink.times is not None and kept:
            sink.times.note(sink.size, time.time())
            if sink.times.due is not None:
                self._untimed.add(sink.times)

    def _patience_s(self) -> float | None:
        """Until the next times are due."""
        dues = [times.due for times in self._untimed if times.due is not None]
        return max(0.0, min(min(dues) - time.time(), INTERVAL_S)) if dues else None

    def _flush_times(self) -> None:
        now = time.time()
        for times in list(self._untimed):
            # A clock that was set back makes the wait no longer.
            if times.due is not None and not times.due - INTERVAL_S <= now < times.due:
                times.flush()
            if times.due is None:
                self._untimed.discard(times)

    def _end(self, sink: Sink) -> None:
        if sink.ended.is_set():
            return
        if sink.times is not None:
            sink.times.close()
        self._selector.unregister(sink.source)
        os.close(sink.source)
        if sink.file is not None:
            os.close(sink.file)
        sink.ended.set()


def append(path: Path, data: bytes) -> int:
    """Append to a file; returns how many bytes found room."""
    file = _open(path)
    try:
        return _write(file, data)
    finally:
        if file is not None:
            os.close(file)


def _open(target: Path | int) -> int | None:
    """None if there is no room even for the file's name."""
    try:
        return os.dup(target) if isinstance(target, int) else os.open(target, _APPEND, 0o600)
    except OSError:
        return None


def _write(file: int | None, data: bytes) -> int:
    """Write as much as there is room for; returns the number of bytes."""
    done = 0
    view = memoryview(data)
    while file is not None and done < len(data):
        try:
            done += os.write(file, view[done:])
        except OSError:
            break
    return done
