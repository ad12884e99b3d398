"""Run the real command on a pseudo-terminal, and render its output as a screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from psclust.testing.wait import PATIENCE_S

_STEP = re.compile(r"\x1b\[(\d*)([AJKm])|\x1b\[[0-9;]*m|([\r\n])|([^\r\n\x1b]+)|(\x1b)")


class Terminal:
    """One command on a pseudo-terminal of `columns` times `rows`; `written` is all of its
    output."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 100,
        rows: int = 30,
    ) -> None:
        self._columns = columns
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._ours = ours
        self._data = bytearray()
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()

    @property
    def written(self) -> str:
        return self._data.decode("utf-8", "replace")

    @property
    def screen(self) -> list[str]:
        return screen(self.written, self._columns)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def wait(self, deadline_s: float = PATIENCE_S) -> int:
        """The exit code, once all output has been read. Raises subprocess.TimeoutExpired."""
        code = self.process.wait(deadline_s)
        self._reader.join(deadline_s)
        return code

    def _read(self, ours: int) -> None:
        try:
            while data := os.read(ours, 1 << 16):
                self._data += data
        except OSError:
            pass  # Linux reports EIO when no process has the other end open
        os.close(ours)


def screen(written: str, columns: int) -> list[str]:
    """The lines, without colors, on a terminal that can move its cursor up and erase lines. Raises
    AssertionError for any other command."""
    lines, row, column = [""], 0, 0
    for number, command, move, text, other in _STEP.findall(written):
        assert not other, f"a terminal gets a command: {written!r}"
        if command == "A":
            row = max(0, row - int(number or 1))
        elif command in ("J", "K"):
            lines[row] = lines[row][:column]
            del lines[row + 1 if command == "J" else len(lines) :]
        elif move == "\r":
            column = 0
        elif move == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        for character in text:
            if column == columns:
                row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
            lines[row] = lines[row][:column].ljust(column) + character + lines[row][column + 1 :]
            column += 1
    return lines
