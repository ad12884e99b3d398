"""The command line of a process that may end at any moment."""

from __future__ import annotations

from contextlib import suppress

import psutil


def words_of(process: psutil.Process) -> list[str]:
    """Its words; none if it has ended."""
    with suppress(psutil.Error):
        return list(process.cmdline())
    return []
