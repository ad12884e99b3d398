"""Ends a process that has no memory left to start a thread, as the kernel would end it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Any

_TEXT = b"psclust: no memory is left to start a thread\n"


def end_when_threads_fail() -> None:
    """From now on, with SIGKILL. Thread.start waits for ever for a thread that finds no memory for
    its first call.

    Python calls sys.unraisablehook in that thread, where only a function in C can run: the `put`
    of a queue, from which another thread takes."""
    reports: SimpleQueue[Any] = SimpleQueue()
    before = sys.unraisablehook
    watch = Thread(target=_watch, args=(reports, before), name="failed-threads", daemon=True)
    watch.start()
    sys.unraisablehook = reports.put
    os.register_at_fork(after_in_child=lambda: setattr(sys, "unraisablehook", before))

    def end() -> None:
        """Python would end the thread in the middle of a report."""
        sys.unraisablehook = before
        reports.put(None)
        watch.join()

    atexit.register(end)


def _watch(reports: SimpleQueue[Any], otherwise: Any) -> None:
    while (report := reports.get()) is not None:
        if report.exc_type is MemoryError and _is_bootstrap(report.object):
            os.write(2, _TEXT)
            os.kill(os.getpid(), signal.SIGKILL)
        otherwise(report)


def _is_bootstrap(function: object) -> bool:
    return getattr(function, "__name__", "") == "_bootstrap" and isinstance(
        getattr(function, "__self__", None), Thread
    )
