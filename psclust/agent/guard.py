"""The guard: a process that does nothing but wait for another one and clean up after it.

When the guarded process is gone, however it ended, everything that it started has been re-parented to the guard (a subreaper), so it can
end all of it, even what has left its process group, by parentage alone. A guarded process whose guard dies gets SIGTERM, and does the
guard's work at its own end.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass(frozen=True, slots=True)
class Guard:
    """The guard as the guarded process sees it."""

    pid: int

    def is_gone(self) -> bool:
        return os.getppid() != self.pid

    def on_term(self, told: Callable[[], None]) -> None:
        """From now on SIGTERM, which also comes when the guard dies, calls `told`; at once if one has come before. Main thread only."""
        signal.signal(signal.SIGTERM, lambda *_: told())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def launch(log: Path, work: Callable[[Guard], int], died: Callable[[int], None], *, close: Sequence[int] = ()) -> int:
    """Fork the guard, which forks a process that does `work` and exits with its result; the guard's pid. Both are in a session of their own
    with their output in `log`, without the file descriptors `close`. `died` is called with any other exit code than 0. The caller must
    have a single thread. Raises OSError when there can be no more processes."""
    guard = os.fork()
    if guard:
        return guard
    code = 1
    try:
        for descriptor in close:
            os.close(descriptor)
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        code = _guard(work, died)
    except BaseException:  # noqa: BLE001 - a process's outermost frame: whatever happened must reach the log
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _guard(work: Callable[[Guard], int], died: Callable[[int], None]) -> int:
    become_subreaper()
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    # A SIGTERM that comes before `on_term` must not be lost: blocked, it waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    guard = Guard(os.getpid())
    guarded = os.fork()
    if guarded == 0:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if guard.is_gone():  # before the line above
            os.kill(os.getpid(), signal.SIGTERM)
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
    """From now on, descendants that lose their parent become this process's children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    """Linux's prctl(2). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def end_descendants() -> None:
    """KILL everything below this process, until nothing is left: what loses its parent becomes a child of this subreaper. What is another
    user's, by way of sudo perhaps, stays."""
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
    """The pids of this process's children, zombies included: until they are reaped, no other process can have their numbers."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stat = Path(f"/proc/{name}/stat").read_bytes()
            # Behind the name, which may hold anything, the state and the parent.
            if int(stat.rpartition(b")")[2].split()[1]) == os.getpid():
                found.add(int(name))
    return found


def _wait_for(pid: int) -> int:
    """The exit code of one child; others that end meanwhile are reaped."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)
