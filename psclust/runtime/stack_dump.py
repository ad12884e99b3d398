"""Lets `psclust why` see where a program's Python threads are where py-spy is missing or may not
look: a signal makes `faulthandler` write them to a file. The program goes on meanwhile, and
interrupted system calls are resumed."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from psclust.rundir.task_progress import STACKS_SIGNAL, stack_file

_LEAST_DESCRIPTOR = 200  # programs may expect the low ones to be free


def offer_stacks(environment: Mapping[str, str]) -> None:
    """Does nothing outside a run, where the signal is in use, or where the file cannot be made:
    `why` then says less. The file is open as long as this offer stands."""
    progress = environment.get("PSCLUST_PROGRESS")
    if progress is None or signal.getsignal(STACKS_SIGNAL) is not signal.SIG_DFL:
        return
    with suppress(OSError):
        low = os.open(
            stack_file(progress),
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC,
            0o600,
        )
        try:
            high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
        finally:
            os.close(low)
        faulthandler.register(STACKS_SIGNAL, high)
