"""Reading the logs of a run: lines out of bytes that may end in the middle of a character, and several growing files as one stream."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

_LINE_END = re.compile(r"\r\n|\n|\r")
_CHUNK = 1 << 18


class LineSplitter:
    """Bytes in, whole lines out. A carriage return ends a line too (progress bars); an incomplete UTF-8 character waits for its rest,
    a wrong one is shown as U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        text = self._rest + self._decoder.decode(data)
        # A carriage return at the very end may be half of \r\n: it waits.
        hold = "\r" if text.endswith("\r") else ""
        parts = _LINE_END.split(text[: len(text) - len(hold)])
        self._rest = parts.pop() + hold
        return parts

    def close(self) -> list[str]:
        """The last line, when it had no end."""
        text = self._rest.rstrip("\r") + self._decoder.decode(b"", final=True)
        self._rest = ""
        return [text] if text else []


class LogReader:
    """One log file, read as it grows. The file need not exist yet."""

    def __init__(self, path: Path, *, offset: int = 0) -> None:
        self.path = path
        self._offset = offset
        self._lines = LineSplitter()

    def read(self) -> Iterator[str]:
        """The whole lines that have come since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                while data := file.read(_CHUNK):
                    self._offset += len(data)
                    yield from self._lines.feed(data)
        except FileNotFoundError:
            return

    def finish(self) -> Iterator[str]:
        """What is left, a last line without its end included."""
        yield from self.read()
        yield from self._lines.close()


def tail(data: bytes, count: int) -> tuple[str, ...]:
    """The last `count` lines of some bytes that may begin in the middle of a line; empty lines at the end do not count."""
    splitter = LineSplitter()
    lines = [line.rstrip() for line in (*splitter.feed(data), *splitter.close())]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines[-count:])


def tail_of(path: Path, count: int, *, most: int = 1 << 16) -> tuple[str, ...]:
    """The last `count` lines of a file, of its last `most` bytes; nothing where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            return tail(file.read(), count)
    except OSError:
        return ()
