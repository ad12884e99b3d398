"""A control group with little memory, for processes that are to exhaust it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from psclust.testing.wait import wait_until

_GROUPS = Path("/sys/fs/cgroup")


@contextmanager
def small_memory(limit: int) -> Iterator[tuple[str, ...]]:
    """The beginning of a command that runs with `limit` bytes at most. Skips the test where no such
    group can be made."""
    with _group(limit) as group:
        yield "sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"


@contextmanager
def little_memory_for(pids: Iterable[int], limit: int) -> Iterator[None]:
    """Processes, and what they start from now on, have `limit` bytes at most for what is new.
    Afterwards those that are left have their old limit. Skips as `small_memory`."""
    with _group(limit) as group:
        _move(pids, group)
        try:
            yield
        finally:
            _move([int(pid) for pid in _processes(group).read_text().split()], group.parent)


@contextmanager
def _group(limit: int) -> Iterator[Path]:
    first = (_GROUPS / "memory").is_dir()
    group = (_GROUPS / "memory" if first else _GROUPS) / f"psclust-{uuid.uuid4().hex}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit))
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"a control group needs root: {error}")
    try:
        yield group
    finally:
        wait_until(
            lambda: not _processes(group).read_text(),
            what="the end of all in the control group",
        )
        group.rmdir()


def _move(pids: Iterable[int], group: Path) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            _processes(group).write_text(str(pid))


def _processes(group: Path) -> Path:
    return group / "cgroup.procs"
