"""The only place that prints. Colors on a terminal only, and the same color for the same task every time."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence

_RESET, _DIM, _RED, _GREEN = "\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m"
_TASK_COLORS = ("\x1b[36m", "\x1b[33m", "\x1b[35m", "\x1b[34m", "\x1b[32m", "\x1b[96m", "\x1b[93m", "\x1b[95m", "\x1b[94m")


def error(text: str) -> None:
    """One line of a message to a user, marked as psclust's."""
    sys.stdout.flush()
    mark = _paint("psclust:", _RED, sys.stderr.isatty())
    print("\n".join(f"{mark} {line}" for line in text.splitlines()), file=sys.stderr, flush=True)


def say(text: str = "") -> None:
    print(text, flush=True)


def data(value: object) -> None:
    print(json.dumps(value, indent=1), flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their widest cell; the last one runs free. rich would cut cells to the terminal's width, and a script reading
    this wants them whole."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        say(_paint(line, _DIM, sys.stdout.isatty()) if row is header else line)


def duration(seconds: float) -> str:
    """`8 s`, `3 min`, `2 h`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def drop_stdout() -> None:
    """After the reader of a pipe has left: nothing more can be said, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _paint(text: str, color: str, on: bool) -> str:
    return f"{color}{text}{_RESET}" if on and text and not os.environ.get("NO_COLOR") else text


class LiveView:
    """Merged lines of all tasks with a prefix each, psclust's own lines between them, and on a terminal one line at the bottom that says
    how far the run is."""

    def __init__(self, tasks: Sequence[str] = ()) -> None:
        self._terminal = sys.stdout.isatty()
        self._colors: dict[str, str] = {}
        self._width = 0
        self._footer = ""
        self._drawn = 0.0
        self.know(tasks)

    def know(self, tasks: Sequence[str]) -> None:
        """Line up the prefixes of these tasks."""
        for task in sorted(tasks):
            self._colors.setdefault(task, _TASK_COLORS[len(self._colors) % len(_TASK_COLORS)])
        self._width = max(map(len, self._colors), default=0)

    def lines(self, task: str, lines: Sequence[str]) -> None:
        if lines:
            self.know([task])
            prefix = _paint(f"{task:<{self._width}} |", self._colors[task], self._terminal)
            self._write("".join(f"{prefix} {line}\n" for line in lines))

    def note(self, text: str) -> None:
        """psclust speaking."""
        mark = _paint("psclust:", _GREEN, self._terminal)
        self._write("".join(f"{mark} {line}\n" for line in text.splitlines()))

    def footer(self, text: str) -> None:
        """The line at the bottom, redrawn at most ten times a second; nothing where no terminal is."""
        if self._terminal and text != self._footer and time.monotonic() - self._drawn > 0.1:
            self._erase()
            self._footer, self._drawn = text, time.monotonic()
            self._draw()

    def close(self) -> None:
        self._erase()
        self._footer = ""
        sys.stdout.flush()

    def _write(self, text: str) -> None:
        self._erase()
        sys.stdout.write(text)
        self._draw()

    def _erase(self) -> None:
        if self._footer:
            sys.stdout.write("\r\x1b[2K")

    def _draw(self) -> None:
        if self._footer:
            width = os.get_terminal_size(sys.stdout.fileno()).columns
            sys.stdout.write(_paint(self._footer[: width - 1], _DIM, True))
        sys.stdout.flush()
