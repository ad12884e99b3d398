"""Reads logs as a terminal would show them, with time and memory per byte independent of the length
of lines."""

from __future__ import annotations

import codecs
import os
from contextlib import suppress
from pathlib import Path

# "Erase the line" at either end of a redrawn line, which a redraw does anyway; Keras goes back with
# backspaces first.
_ERASE = ("\x1b[K", "\x1b[0K", "\x1b[1K", "\x1b[2K")
_BACK = "\x08"
_CHUNK = 1 << 18  # bytes of a file that are read at once
LONGEST = 1 << 16  # characters of a line that are buffered until its end


class LineSplitter:
    """Bytes in, lines out, each with its newline. A line longer than LONGEST comes in pieces, and
    only the last piece ends in a newline. A carriage return starts the line again, as on a
    terminal, so that a progress bar is one line: its last state. An incomplete UTF-8 character is
    kept until its rest comes; an invalid one becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._parts: list[str] = []  # of the line without an end so far
        self._size = 0
        self._state: str | None = None  # the line at its last carriage return
        self._split = False  # whether pieces of the line have been returned

    @property
    def redrawn(self) -> str | None:
        """The current state of a redrawn line that has not ended, such as a progress bar."""
        return None if self._state is None else self._text() or self._state

    def feed(self, data: bytes) -> list[str]:
        *ended, rest = self._decoder.decode(data).split("\n")
        lines = [self._end_line(text) for text in ended]
        self._add(rest)
        if self._size > LONGEST:
            lines.append("".join(self._parts))
            self._parts, self._size, self._state, self._split = [], 0, None, True
        return lines

    def close(self) -> list[str]:
        """The last line, if it has no newline."""
        self._add(self._decoder.decode(b"", final=True))
        unended = self._split or bool((self._text() or self._state or "").strip())
        return [self._end_line("")] if unended else []

    def _end_line(self, text: str) -> str:
        if self._parts or self._state is not None or self._split or "\r" in text:
            self._add(text)
            text = self._text() or self._state or ""
            self._parts, self._size, self._state, self._split = [], 0, None, False
        return f"{text}\n"

    def _add(self, text: str) -> None:
        """Text without a newline."""
        if "\r" in text and self._split:
            text = text.replace("\r", "")  # pieces that were returned cannot be redrawn
        elif "\r" in text:
            first, *states, text = text.split("\r")
            self._parts.append(first)
            states = [self._state or "", self._text(), *states]
            self._state = next(
                (state for each in reversed(states) if each and (state := _redrawn(each))), ""
            )
            self._parts, self._size = [], 0
        if text:
            self._parts.append(text)
            self._size += len(text)

    def _text(self) -> str:
        text = "".join(self._parts)
        return text if self._state is None else _redrawn(text)


def _redrawn(line: str) -> str:
    """The line without what erases it."""
    first, end = 0, len(line)
    while line.startswith(_ERASE, first):
        first = line.index("K", first) + 1
    while end > first and line.endswith((*_ERASE, _BACK), first, end):
        end = end - 1 if line[end - 1] == _BACK else line.rindex("\x1b", first, end)
    return line[first:end]


class LogReader(LineSplitter):
    """Follows a log file as it grows. The file need not exist yet. `feed` takes output that found
    no room in it."""

    def __init__(self, path: Path, *, offset: int = 0) -> None:
        super().__init__()
        self.path = path
        self._offset = offset
        self.behind = False  # whether there may be more than the last `read` returned

    def read(self) -> list[str] | None:
        """The lines, and pieces of lines, in the next bytes; None if there are no more."""
        data = read_from(self.path, self._offset)
        self._offset += len(data)
        self.behind = len(data) == _CHUNK
        return self.feed(data) if data else None


def read_from(path: Path, offset: int, end: int | None = None) -> bytes:
    """The next bytes of a file, which need not exist yet; none from `end` on."""
    most = _CHUNK if end is None else min(_CHUNK, end - offset)
    with suppress(OSError):
        # Most logs have nothing new, and opening one takes five times as long as this.
        if most > 0 and os.stat(path).st_size > offset:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(most)
    return b""


def lines_of(data: bytes) -> list[str]:
    """The lines in `data`, without their newlines."""
    splitter = LineSplitter()
    return "".join([*splitter.feed(data), *splitter.close()]).split("\n")[:-1]
