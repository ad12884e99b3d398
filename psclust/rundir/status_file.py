"""The status of a run on disk. Its end is recorded even if the disk is full, or the supervisor was
killed."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from psclust.errors import NoRunError
from psclust.rundir.agents_file import mark_dead
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.events_file import EventsFile, record
from psclust.rundir.folder import ENDING_BYTES, ClusterFolder, RunFolder
from psclust.rundir.log_tail import tail_of
from psclust.rundir.status import QUEUED, RunStatus

_LOG_LINES = 60  # enough for a traceback
_LONGEST_TEXT = 1000  # characters of the text, and of the tail, that fit into ENDING_BYTES


def write_status(folder: RunFolder, status: RunStatus) -> None:
    """Replace the status; on a full disk, the last status goes into the space reserved for it.
    Raises OSError if an earlier one finds no room."""
    try:
        write_atomically(folder.status, status.to_json())
    except OSError:
        if not status.ended:
            raise
        _write_ending(folder, status)


def read_status(folder: RunFolder) -> RunStatus:
    """The last status of a run, completed if its supervisor could not write the end. Raises
    NoRunError for a run that has just begun."""
    cluster = ClusterFolder(folder.path.parent)
    current = cluster.current()
    live = cluster.is_live() and current is not None and current.path.name == folder.path.name
    status = _read(folder.status)
    if status is not None and (live or status.ended):
        return status
    if live:
        raise NoRunError(f"{cluster.name}: the run has not begun yet.")
    ending = _read(folder.ending)
    if ending is not None:
        return (
            ending
            if ending.tasks or status is None
            else replace(ending, tasks=_ended(status, None).tasks)
        )
    if status is not None:
        return _ended(
            status, None, ok=False, exit_code=1, text="the supervisor and its guard were killed"
        )
    return _ended(_blank(folder), None, ok=False, exit_code=3, text=not_started(folder))


def record_death(folder: RunFolder, how: str) -> None:
    """Record the end of a run whose supervisor has died; `how` is a clause."""
    for path in (folder.socket, folder.access):
        path.unlink(missing_ok=True)
    status = _read(folder.status)
    if status is None or status.ended:
        return
    lines = tail_of(folder.supervisor_log, _LOG_LINES)
    # A fault of psclust's own left a traceback.
    why = f" ({lines[-1]})" if any(line.startswith("Traceback") for line in lines) else ""
    agents = mark_dead(folder, time.time())
    text = (
        f"the supervisor {how}{why}; every task of the run {'here ' if agents else ''}was stopped"
    )
    if agents is not None:
        text += (
            f", those on {agents.names} end by themselves within {agents.lasts_s:.0f} "
            f"s (deadlines.lease). `psclust down {folder.path.parent.name}`, "
            "or the next `psclust up`, ends them at once"
        )
    now = status.began + status.age(status.began)
    EventsFile(folder.events).append(
        [record("end", ok=False, exit_code=1, reason=text)], time.time(), now - status.began
    )
    with suppress(OSError):
        write_status(folder, _ended(status, now, ok=False, exit_code=1, text=text))


def is_queued(folder: RunFolder) -> bool:
    """Whether no supervisor has taken over the run that was submitted with this folder."""
    status = _read(folder.status)
    return status is not None and status.phase == QUEUED and _read(folder.ending) is None


def record_lost_job(folder: RunFolder, *, exit_code: int, text: str) -> None:
    """Record the end of a run whose batch job is gone. A last status of its supervisor, which may
    be seen here later, prevails. Raises OSError."""
    status = _read(folder.status) or _blank(folder)
    if not status.ended:
        tasks = tuple(replace(task, phase="stopped") for task in status.tasks)
        _write_ending(
            folder,
            _ended(replace(status, tasks=tasks), None, ok=False, exit_code=exit_code, text=text),
        )


def not_started(folder: RunFolder) -> str:
    """A clause about a supervisor that did not start, with the last line of its log."""
    lines = tail_of(folder.supervisor_log, 1)
    return "the supervisor did not start: " + (lines[-1] if lines else "it logged nothing")


def _read(path: Path) -> RunStatus | None:
    try:
        return RunStatus.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _ended(status: RunStatus, at: float | None, /, **outcome: Any) -> RunStatus:
    """at: when the last tasks ended, if known."""
    tasks = tuple(
        replace(task, phase="stopped", pid=None, since=at or task.since) if task.pid else task
        for task in status.tasks
    )
    return replace(status, phase="ended", tasks=tasks, **outcome)


def _blank(folder: RunFolder) -> RunStatus:
    """The status of a run that never wrote one."""
    try:
        began = folder.path.stat().st_mtime
    except OSError:
        began = 0.0
    return RunStatus(folder.path.parent.name, folder.id, str(folder.path), "ended", 0, began)


def _write_ending(folder: RunFolder, status: RunStatus) -> None:
    """Write as much of the status as there is room for, without the tasks if they are too many."""
    tail = "\n".join(status.cause_tail)[-_LONGEST_TEXT:].splitlines()
    tasks = tuple(replace(task, unkept="", log=None) for task in status.tasks)
    short = replace(
        status,
        text=(status.text or "")[:_LONGEST_TEXT],
        cause_tail=tuple(tail),
        notes=(),
        tasks=tasks,
    )
    text = next(
        text
        for one in (short, replace(short, tasks=()))
        if len(text := one.to_json().encode()) <= ENDING_BYTES
    )
    # Overwriting needs no new block.
    with folder.ending.open("r+b") as file:
        file.write(text.ljust(ENDING_BYTES))
