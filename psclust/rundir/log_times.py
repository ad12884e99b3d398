"""When the bytes of a log were written. The log is what a task printed and nothing else; a file
beside it has entries (end, time): the bytes up to `end` had been read by `time`, and after the time
of the entry before. Bytes behind the last entry have no known time."""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

INTERVAL_S = 0.1  # least time between two entries, so also how exact they are
ENTRY = struct.Struct("<Qd")  # bytes of the log; seconds since the epoch


def times_path(log: Path) -> Path:
    return log.with_suffix(".times")


class TimesWriter:
    """Writes the times of a log. After an entry that found no room there are no further ones: the
    next one would date the bytes of the missing one too."""

    def __init__(self, log: Path) -> None:
        self._path = times_path(log)
        self._file: int | None = None
        self._last = 0.0
        self._pending: tuple[int, float] | None = None
        self._failed = False

    def note(self, end: int, now: float) -> None:
        """The log has `end` bytes, the last of them read at `now`. The entry may wait for
        `flush`."""
        self._pending = (end, now)
        if not 0 <= now - self._last < INTERVAL_S:
            self.flush()

    @property
    def due(self) -> float | None:
        """When to call `flush`, in seconds since the epoch."""
        return self._last + INTERVAL_S if self._pending else None

    def flush(self) -> None:
        if self._pending is None:
            return
        entry, self._last, self._pending = ENTRY.pack(*self._pending), self._pending[1], None
        if not self._failed:
            self._failed = not self._write(entry)

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, entry: bytes) -> bool:
        with suppress(OSError):
            if self._file is None:
                self._file = os.open(
                    self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
                )
            return os.write(self._file, entry) == len(entry)
        return False


class LogTimes:
    """The times of a log, also of one that grows."""

    def __init__(self, log: Path) -> None:
        self._path = times_path(log)
        self._ends: list[int] = []
        self._times: list[float] = []

    @property
    def known_to(self) -> int:
        """How many bytes of the log have a time."""
        return self._ends[-1] if self._ends else 0

    def read(self) -> None:
        """Take in new entries."""
        for end, time in read_entries(self._path, len(self._ends)):
            self._ends.append(end)
            self._times.append(time)

    def of(self, end: int) -> float | None:
        """When byte number `end`, counted from 1, had been read; None if that is not known."""
        index = bisect_left(self._ends, end)
        return self._times[index] if index < len(self._times) else None


def read_entries(path: Path, first: int) -> Iterator[tuple[int, float]]:
    """The whole entries from number `first` on; none if there is no file."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(first * ENTRY.size)
        data = file.read()
        yield from ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])
