"""The last lines of logs and texts, without reading all of a log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from psclust.rundir.log_reader import lines_of

_BLOCK = 1 << 16
_LONGEST_IN_TAIL = 2000  # characters


def tail_offsets(logs: Sequence[Path], count: int) -> dict[Path, int]:
    """The byte offset in each log of a task (oldest first) behind which there are `count` lines in
    all."""
    begin: dict[Path, int] = {}
    for log in reversed(logs):
        begin[log], found = _begin(log, count)
        count -= found
    return begin


def _begin(log: Path, count: int) -> tuple[int, int]:
    """The offset of the last `count` lines of a file, and how many there are; a last line without a
    newline counts."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, 2)
            if not count or not end:
                return end, 0
            ends = 0  # of lines before the last
            offset = end - 1
            while offset > 0:
                size = min(_BLOCK, offset)
                file.seek(offset - size)
                block, at = file.read(size), size
                while (at := block.rfind(b"\n", 0, at)) >= 0:
                    ends += 1
                    if ends == count:
                        return offset - size + at + 1, count
                offset -= size
            return 0, ends + 1
    except OSError:
        return 0, 0


def last_line(text: str) -> str:
    """The last line that is not blank, without the space around it; of a traceback that is the
    exception. "" if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def tail(data: bytes, count: int) -> tuple[str, ...]:
    """The last `count` lines of output that may begin in the middle of a line, without empty lines
    at the end. Long lines are shortened in the middle."""
    lines = [line.rstrip() for line in lines_of(data)]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(map(_shortened, lines[-count:]))


def tail_of(path: Path, count: int, *, most: int = 1 << 16) -> tuple[str, ...]:
    """The last `count` lines in the last `most` bytes of a file; none if there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            return tail(file.read(most), count)
    except OSError:
        return ()


def _shortened(line: str) -> str:
    if len(line) <= _LONGEST_IN_TAIL:
        return line
    half = _LONGEST_IN_TAIL // 2
    return f"{line[:half]} ... ({len(line) - 2 * half} characters) ... {line[-half:]}"
