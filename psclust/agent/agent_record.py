"""A record of an agent's processes in the run's folder on its host. By it the next `psclust up`
finds an agent that has lost its supervisor (`psclust.reach.python.on_host.end_agent`)."""

from __future__ import annotations

import json
import os
from pathlib import Path

from psclust.rundir.atomic_file import write_required


def record_processes(path: Path, guard: int) -> None:
    """This process and its `guard`: [[pid, start], [pid, start]], the starts in ticks since the
    machine's. Raises StartError."""
    write_required(path, json.dumps([[pid, _started(pid)] for pid in (os.getpid(), guard)]))


def _started(pid: int) -> int:
    return int(
        Path(f"/proc/{pid}/stat")
        .read_text(encoding="utf-8", errors="replace")
        .rpartition(")")[2]
        .split()[19]
    )
