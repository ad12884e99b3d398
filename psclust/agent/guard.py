"""The guard: the parent of a supervisor or agent, which waits for it and then ends everything it
started.

Processes whose parent ended are re-parented to the guard (a subreaper), so it finds them all by
parentage, also those that left their process group. A guarded process whose guard dies gets
SIGTERM, and ends its own descendants when it exits.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from psclust.transport.process_stat import PARENT, stat_fields

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass(frozen=True, slots=True)
class Guard:
    """The guard, as seen by the guarded process."""

    pid: int

    def is_gone(self) -> bool:
        return os.getppid() != self.pid

    def on_term(self, stop: Callable[[], None]) -> None:
        """Call `stop` on SIGTERM, which also comes when the guard dies; at once if one is pending.
        Main thread only."""
        signal.signal(signal.SIGTERM, lambda *_: stop())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def launch(
    log: Path,
    work: Callable[[Guard], int],
    died: Callable[[int], None],
    *,
    close: Sequence[int] = (),
) -> int:
    """Fork the guard, which forks a process that runs `work` and exits with its result; returns the
    guard's pid. Both run in a new session, without the file descriptors `close`, and write to
    `log`, `logging` included. `died` is called with any exit code but 0. The caller must have
    a single thread. Raises OSError when no process can be created."""
    guard = os.fork()
    if guard:
        return guard
    code = 1
    try:
        for descriptor in close:
            os.close(descriptor)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _write_to(log)
        code = _guard(work, died)
    except BaseException:  # noqa: BLE001 - a process's outermost frame
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _write_to(log: Path) -> None:
    """Append what this process prints to a file."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target in (1, 2):
        os.dup2(output, target)
    if output > 2:
        os.close(output)


def _guard(work: Callable[[Guard], int], died: Callable[[int], None]) -> int:
    become_subreaper()
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    # Blocked, a SIGTERM that comes before `on_term` stays pending.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    guard = Guard(os.getpid())
    guarded = os.fork()
    if guarded == 0:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if guard.is_gone():  # before the line above
            os.kill(os.getpid(), signal.SIGTERM)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
        become_subreaper()
        try:
            return work(guard)
        finally:
            if guard.is_gone():
                end_descendants()
    code = _wait_for(guarded)
    end_descendants()
    if code != 0:
        died(code)
    return 0


def become_subreaper() -> None:
    """Become the parent of descendants whose parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    """prctl(2). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def end_descendants() -> None:
    """KILL all descendants of this subreaper and reap them, except those of another user (started
    with sudo, say)."""
    spared: set[int] = set()
    while running := children() - spared:
        for child in running:
            try:
                os.kill(child, signal.SIGKILL)
            except PermissionError:
                spared.add(child)
        for child in running - spared:
            os.waitpid(child, 0)


def children() -> set[int]:
    """The pids of this process's children, zombies included: until they are reaped, no other
    process can have their numbers."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if int(stat_fields(int(name))[PARENT]) == os.getpid():
                found.add(int(name))
    return found


def _wait_for(pid: int) -> int:
    """The exit code of one child; reaps others that end meanwhile."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)
