"""Processes that may end at any moment."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import Any

import psutil


def running(started: subprocess.Popen[Any]) -> psutil.Process | None:
    """None once it has ended: then its number may be that of any other process, which nothing must
    look at or kill in its place."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(started.pid) if started.poll() is None else None
    return None


def words_of(process: psutil.Process) -> list[str]:
    """The words of its command line; none if it has ended."""
    with suppress(psutil.Error):
        return list(process.cmdline())
    return []
