"""The end of a run whose supervisor does not answer, because it stands still perhaps: by signals, and from outside."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from psclust.rundir.folder import ClusterFolder, RunFolder

_POLL = 0.02


def force_stop(folder: RunFolder, patience_s: float) -> bool:
    """KILL the supervisor of a live run; its guard, woken if it stands still, then ends everything else, also what has left its process
    group. Whether nothing holds the run any more, after at most `patience_s` seconds."""
    cluster = ClusterFolder(folder.path.parent)
    deadline = time.monotonic() + patience_s
    below: set[psutil.Process] = set()
    while cluster.is_live():
        holders = _holders(cluster.lock_file, folder.supervisor_log)
        below |= _descendants(holders)
        for process in holders:
            with suppress(psutil.Error):
                # The guard, which is above, is to clean up; without a guard nobody does.
                process.send_signal(signal.SIGCONT if _is_above(process, holders) else signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    for process in below:
        with suppress(psutil.Error):
            process.kill()
    return True


def _holders(lock: Path, log: Path) -> list[psutil.Process]:
    """Supervisor and guard: they have the lock open, as others do for a moment, and write to the supervisor's log, as fork servers do."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            descriptors = Path(f"/proc/{process.pid}/fd")
            if (descriptors / "1").samefile(log) and any(_is(path, lock) for path in descriptors.iterdir()):
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


def _is_above(process: psutil.Process, others: Iterable[psutil.Process]) -> bool:
    with suppress(psutil.Error):
        return any(other.ppid() == process.pid for other in others)
    return False
