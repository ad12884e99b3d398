"""Chooses and removes old runs; never a live one."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from psclust.rundir.folder import ClusterFolder, RunFolder, clusters

KEPT_IN_ALL = 100  # of all clusters


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run that has ended. ended: seconds since the epoch. is_last: whether it is the last run of
    its cluster."""

    name: str
    run: str
    ended: float
    is_last: bool


def old_runs(root: Path) -> list[OldRun]:
    """All runs of this user that are not live, latest first."""
    found = []
    for cluster in clusters(root):
        try:
            current, live = cluster.current(), cluster.is_live()
        except PermissionError:
            continue  # another user's
        for run in cluster.runs():
            is_last = current is not None and run.id == current.id
            if not (live and current is not None and (is_last or run.shares_job(current))):
                found.append(OldRun(cluster.name, run.id, _ended(run), is_last))
    return sorted(found, key=lambda run: (run.ended, run.run), reverse=True)


def chosen(
    runs: Iterable[OldRun],
    *,
    names: Collection[str] = (),
    keep: int | None = None,
    older_than: float | None = None,
) -> list[OldRun]:
    """Filter `runs` (latest first): those of `names` (empty: all), except the `keep` last of each,
    that ended before `older_than`."""
    count: dict[str, int] = {}
    found = []
    for run in runs:
        count[run.name] = count.get(run.name, 0) + 1
        if (
            (not names or run.name in names)
            and count[run.name] > (keep or 0)
            and (older_than is None or run.ended < older_than)
        ):
            found.append(run)
    return found


def remove(root: Path, runs: Iterable[OldRun]) -> list[OldRun]:
    """Remove runs; returns the removed ones. The last run of a cluster stays if it is live again,
    or has left files on other hosts, for `psclust down --purge`."""
    by_name: dict[str, list[OldRun]] = {}
    for run in runs:
        by_name.setdefault(run.name, []).append(run)
    return [
        run for name, old in by_name.items() for run in _remove(ClusterFolder(root / name), old)
    ]


def _remove(cluster: ClusterFolder, runs: list[OldRun]) -> list[OldRun]:
    gone = []
    lock = cluster.lock()
    try:
        for run in sorted(runs, key=lambda run: run.is_last):
            if run.is_last and (
                lock is None or has_left_something(cluster) or len(cluster.runs()) > 1
            ):
                continue
            folder = cluster.path / run.run
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                gone.append(run)
        if lock is not None and not cluster.runs():
            shutil.rmtree(cluster.path, ignore_errors=True)
    finally:
        if lock is not None:
            os.close(lock)
    return gone


def prune_beyond_limit(root: Path) -> None:
    """Keep at most KEPT_IN_ALL runs; `ClusterFolder.new_run` limits those of one cluster."""
    with suppress(OSError):
        remove(root, old_runs(root)[KEPT_IN_ALL:])


def has_left_something(cluster: ClusterFolder) -> bool:
    """Whether runs may have left files on other hosts."""
    try:
        return cluster.hosts.read_text(encoding="utf-8").strip() not in ("", "{}")
    except OSError:
        return False


def size(run: RunFolder) -> int:
    """Bytes on disk."""
    total = 0
    for folder, _, names in os.walk(run.path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


def _ended(run: RunFolder) -> float:
    """When its status last changed or, without one, its folder."""
    for path in (run.status, run.path):
        with suppress(OSError):
            return path.stat().st_mtime
    return time.time()
