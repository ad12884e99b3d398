"""The Linux process calls that Python lacks, and what a new task owes its supervisor: to be its child, and to die with it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
CHANGED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Those that a fork server ignores, and a task must not."""
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    if _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def set_name(name: str) -> None:
    """The name under which `top` and `ps -o comm` list this process; the kernel keeps 15 bytes of it."""
    _libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def wait_for_new_parent(old: int, patience_s: float = 5.0) -> None:
    """Wait until this process has another parent than `old`, which is about to exit. Its children have one by the time that a pidfd says
    it has ended; without those there is nothing to wait on but time."""
    deadline = time.monotonic() + patience_s
    with suppress(OSError, AttributeError):  # the kernel, or the one that this Python was built for, may lack them
        # Whoever else has been given the number meanwhile is not this process's parent.
        end = os.pidfd_open(old)
        if os.getppid() == old:
            select.select([end], [], [], patience_s)
        os.close(end)
    while os.getppid() == old and time.monotonic() < deadline:
        time.sleep(0.0002)


def default_signals() -> None:
    """Handlers and mask of a process that has just been started."""
    for number in CHANGED_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def flush_c_streams() -> None:
    """Write out what C and C++ code has left in its stdio buffers."""
    _libc.fflush(None)


def thread_count() -> int:
    """Threads of this process, also those that Python did not start."""
    return len(os.listdir("/proc/self/task"))
