"""The output of a run, on a terminal or in a file: lines of all tasks as they come; on a terminal
also progress bars and a footer."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from psclust.cli.terminal_text import RESET, cut, look_of, paint, visible

_DIM, _GREEN = "\x1b[2m", "\x1b[32m"
_TASK_COLORS = (
    "\x1b[36m",
    "\x1b[33m",
    "\x1b[35m",
    "\x1b[34m",
    "\x1b[32m",
    "\x1b[96m",
    "\x1b[93m",
    "\x1b[95m",
    "\x1b[94m",
)
_REDRAW_S = 0.1
_BAR_S = 10.0  # between two lines of a progress bar that cannot be redrawn
_LONGEST_BAR = 1000


class LiveView:
    """Merges the lines of all tasks, each with its task's prefix, and psclust's own. At the bottom
    of a terminal it redraws a line for each task with a progress bar, and the footer."""

    def __init__(self, tasks: Sequence[str] = ()) -> None:
        self._look = look_of(sys.stdout)
        self._colors: dict[str, str] = {}
        self._width = 0
        self._open: str | None = None  # the task whose last line is unfinished
        self._bars: dict[str, str] = {}
        self._bars_said: dict[str, tuple[float, str]] = {}
        self._footer = ""
        self._table: Sequence[str] = ()
        self._shown: list[int] = []  # the widths of the lines at the bottom
        self._drawn = 0.0
        self._stale = False
        self.know(tasks)

    def know(self, tasks: Sequence[str]) -> None:
        """Line up the prefixes of these tasks."""
        for task in sorted(tasks):
            self._colors.setdefault(task, _TASK_COLORS[len(self._colors) % len(_TASK_COLORS)])
        self._width = max(map(len, self._colors), default=0)

    def lines(self, task: str, lines: Sequence[str], bar: str | None = None) -> None:
        """Show lines, each with its newline; one without is the beginning of a line. bar: the
        task's progress bar, as it is now."""
        self._set_bar(task, bar[:_LONGEST_BAR] if bar and bar.strip() else None)
        parts: list[str] = []
        prefix = self._prefix(task) if lines else ""
        for line in lines:
            if self._open != task:
                parts += [self._end_open(), prefix]
            text = line.removesuffix("\n")
            parts.append(visible(text, colors=self._look.colors))
            ended = len(text) < len(line) or self._look.redraws
            parts.append("\n" if ended else "")
            self._open = None if ended else task
        if parts:
            self._write("".join(parts))

    def note(self, text: str) -> None:
        """Show a message of psclust's own."""
        mark = paint("psclust:", _GREEN, self._look.colors)
        self._write(
            self._end_open() + "".join(f"{mark} {visible(line)}\n" for line in text.split("\n"))
        )

    @property
    def redraws(self) -> bool:
        """Whether there is a line at the bottom."""
        return self._look.redraws

    def footer(self, text: str) -> None:
        """Set the line at the bottom. It and the bars are redrawn at most ten times a second, and
        only on a terminal."""
        if not self._look.redraws:
            return
        self._stale = self._stale or text != self._footer
        self._footer = text
        if self._stale and time.monotonic() - self._drawn > _REDRAW_S:
            self._write("")

    def table(self, lines: Sequence[str]) -> None:
        """Set the lines above the footer. They may have colors."""
        self._table, self._stale = lines, True

    @property
    def columns(self) -> int:
        """How wide a line at the bottom may be."""
        return _size()[0] - 1

    @property
    def colors(self) -> bool:
        return self._look.colors

    def close(self) -> None:
        self._footer, self._table = "", ()
        self._bars.clear()
        self._write(self._end_open())

    def _prefix(self, task: str) -> str:
        self.know([task])
        return paint(f"{task:<{self._width}} |", self._colors[task], self._look.colors) + " "

    def _end_open(self) -> str:
        """The newline for a task's unfinished line."""
        before, self._open = self._open, None
        return "\n" if before is not None else ""

    def _set_bar(self, task: str, text: str | None) -> None:
        if self._look.moves and (text or "") != self._bars.get(task, ""):
            self._stale = True
            self._bars[task] = text or ""
        elif not self._look.moves and text:
            at, before = self._bars_said.get(task, (float("-inf"), ""))
            if text != before and time.monotonic() - at > _BAR_S:
                self._bars_said[task] = (time.monotonic(), text)
                shown = visible(text, colors=self._look.colors)
                self._write(f"{self._end_open()}{self._prefix(task)}{shown}\n")

    def _write(self, text: str) -> None:
        """Write lines above the bottom, and redraw that, in one piece so that nothing flickers."""
        columns, rows = _size()
        sys.stdout.write(self._erase(columns) + text + self._draw(columns, rows))
        sys.stdout.flush()

    def _erase(self, columns: int) -> str:
        shown, self._shown = self._shown, []
        if not shown:
            return ""
        if not self._look.moves:
            return "\r" + " " * min(shown[-1], columns - 1) + "\r"
        # A terminal that became narrower has wrapped them.
        rows = sum(max(1, -(-width // columns)) for width in shown)
        return "\r" + "\x1b[A" * (rows - 1) + "\x1b[J"

    def _draw(self, columns: int, rows: int) -> str:
        if not self._look.redraws:
            return ""
        self._stale, self._drawn = False, time.monotonic()
        lines = [cut(line, columns - 1) for line in self._table]
        lines += [
            self._draw_bar(task, columns - 1)
            for task in sorted(task for task, text in self._bars.items() if text)
        ]
        del lines[max(1, rows - 3) :]
        if self._footer:
            text, width = cut(visible(self._footer), columns - 1)
            lines.append((paint(text, _DIM, self._look.colors), width))
        self._shown = [width for _, width in lines]
        return "\n".join(text for text, _ in lines)

    def _draw_bar(self, task: str, columns: int) -> tuple[str, int]:
        text, width = cut(
            self._prefix(task) + visible(self._bars[task], colors=self._look.colors), columns
        )
        return (f"{text}{RESET}" if "\x1b" in text else text), width


def _size() -> tuple[int, int]:
    """Columns and rows of the terminal; 80 and 24 if it does not report them."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return 80, 24
    return size.columns or 80, size.lines or 24
