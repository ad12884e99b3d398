"""Ending a run whose supervisor does not answer (suspended, say), by signals from outside."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from psclust.rundir.folder import ClusterFolder, RunFolder

_POLL_S = 0.02


def force_stop(folder: RunFolder, timeout_s: float) -> bool:
    """KILL the supervisor of a live run and continue its guard, which then ends all other
    processes. Returns whether the run has ended, within `timeout_s`."""
    cluster = ClusterFolder(folder.path.parent)
    deadline = time.monotonic() + timeout_s
    below: set[psutil.Process] = set()
    while cluster.is_locked():
        holders = _holders(cluster.lock_file, folder.supervisor_log)
        below |= _descendants(holders)
        for process in holders:
            with suppress(psutil.Error):
                # The guard, the parent, must live to clean up.
                process.send_signal(
                    signal.SIGCONT if _is_parent(process, holders) else signal.SIGKILL
                )
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    for process in below:
        with suppress(psutil.Error):
            process.kill()
    return True


def _holders(lock: Path, log: Path) -> list[psutil.Process]:
    """Supervisor and guard: only they have both the lock and the supervisor's log open."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            descriptors = Path(f"/proc/{process.pid}/fd")
            if (descriptors / "1").samefile(log) and any(
                _is(path, lock) for path in descriptors.iterdir()
            ):
                found.append(process)
    return found


def _is(descriptor: Path, file: Path) -> bool:
    try:
        return descriptor.samefile(file)
    except OSError:
        return False


def _descendants(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    found: set[psutil.Process] = set()
    for process in processes:
        with suppress(psutil.Error):
            found |= set(process.children(recursive=True))
    return found


def _is_parent(process: psutil.Process, others: Iterable[psutil.Process]) -> bool:
    with suppress(psutil.Error):
        return any(other.ppid() == process.pid for other in others)
    return False
