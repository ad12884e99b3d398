"""Lines of a program's source, for places in it. A file that has changed since the process began
says nothing about it."""

from __future__ import annotations

import os
from pathlib import Path

_LARGEST = 1 << 20  # bytes
_LONGEST = 60
_TICKS = os.sysconf("SC_CLK_TCK")


def source_line(pid: int, file: str, line: int) -> str | None:
    """The line of a process's source, without its indentation, cut where it is long; None where it
    cannot be known. A relative path begins in the working folder of the process."""
    path = Path(f"/proc/{pid}/cwd") / file
    try:
        found = path.stat()
        if found.st_size > _LARGEST or found.st_mtime > _began(pid):
            return None
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...") or None


def _began(pid: int) -> float:
    """When a process began, in seconds since the epoch."""
    ticks = (
        Path(f"/proc/{pid}/stat")
        .read_text(encoding="utf-8", errors="replace")
        .rpartition(") ")[2]
        .split()[19]
    )
    boot = next(
        line
        for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines()
        if line.startswith("btime ")
    )
    return int(boot.split()[1]) + int(ticks) / _TICKS
