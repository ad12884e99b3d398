"""The kernel's numbers about a process: see proc(5)."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
# Positions in `stat_fields`; the start is in ticks since that of the machine.
STATE, PARENT, USER_TICKS, SYSTEM_TICKS, START_TICKS = 0, 1, 11, 12, 19


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may contain anything. Raises OSError."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()
