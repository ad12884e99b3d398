"""Linux process calls that Python lacks, among them those that make a task die with its
supervisor."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
CHANGED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ignored by a fork server, but not by its tasks."""
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    if _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def set_name(name: str) -> None:
    """Set the name that `top` and `ps -o comm` show; the kernel keeps 15 bytes."""
    _libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def wait_for_new_parent(old: int, timeout_s: float = 5.0) -> None:
    """Wait until this process has another parent than `old`, which is about to exit."""
    deadline = time.monotonic() + timeout_s
    while os.getppid() == old and time.monotonic() < deadline:
        time.sleep(0.001)


def default_signals() -> None:
    """Set the handlers and mask of a fresh process."""
    for number in CHANGED_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def recorded_signals() -> int:
    """A descriptor, not blocking, from which the numbers of signals with a handler in Python can be
    read as they come: the handlers wait for the main thread. Main thread only."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    return read


def flush_c_streams() -> None:
    """Flush the stdio buffers of C and C++ code."""
    _libc.fflush(None)


def thread_count() -> int:
    """Threads of this process, including those that Python did not start."""
    return len(os.listdir("/proc/self/task"))


def wait_for_a_signal(server: object = None) -> NoReturn:
    """Sleep, holding `server`, until a signal ends the process by its default action, without
    unwinding Python under the server's threads."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while True:
        signal.pause()
