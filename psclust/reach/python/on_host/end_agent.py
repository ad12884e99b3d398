"""Ends the agent of a run whose supervisor is gone, with all its tasks."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from typing import Any, BinaryIO

_POLL_S = 0.05
_KILLED_S = 10.0  # for the guard of a killed agent to end its tasks


def answer(question: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """`record`: the file with the agent's processes (`psclust.agent.process`); `grace_s`: what
    the agent gives its tasks between TERM and KILL. Returns `alive`: the processes that are left,
    which another user may have."""
    try:
        with open(question["record"], encoding="utf-8") as file:
            agent, guard = json.load(file)
    except FileNotFoundError:  # it has not begun, or was purged
        return {"alive": []}
    for number, limit_s in (
        (signal.SIGTERM, question["grace_s"] + _KILLED_S),
        (signal.SIGKILL, _KILLED_S),
    ):
        if _is_alive(*agent):
            with suppress(ProcessLookupError):
                os.kill(agent[0], number)
        # The guard ends last, when no task is left.
        end = time.monotonic() + limit_s
        while _is_alive(*guard) and time.monotonic() < end:
            time.sleep(_POLL_S)
    return {"alive": [process[0] for process in (agent, guard) if _is_alive(*process)]}


def _is_alive(pid: int, started: int) -> bool:
    """Whether the process is there, and no other one with its number. started: in ticks since the
    machine's start."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except FileNotFoundError:
        return False
    return fields[0] != "Z" and int(fields[19]) == started
