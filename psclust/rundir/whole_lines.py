"""A file that grows by whole lines, whatever happens to the disk or the writer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


class WholeLines:
    """Appends to the file at `path`, which need not exist. Only one process may write it at a
    time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def append(self, data: bytes) -> bool:
        """Write all of `data`, complete lines, or nothing; whether there was room."""
        with suppress(OSError):
            if self._file is None:
                self._file = _open(self.path)
            before = os.fstat(self._file).st_size
            with suppress(OSError):
                if os.write(self._file, data) == len(data):
                    return True
            os.ftruncate(self._file, before)
        return False

    def close(self) -> None:
        """The next `append` opens the file again, which may be another one by then."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read_lines(path: Path) -> Iterator[str]:
    """The whole lines so far, without an unfinished last one; none if there is no file."""
    with suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as file:
        yield from (line for line in file if line.endswith("\n"))


def _open(path: Path) -> int:
    """Open to append; a line that a killed writer left unfinished is removed."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    content = path.read_bytes()
    os.ftruncate(file, content.rfind(b"\n") + 1)
    return file
