"""A control group with little memory, for processes that are to exhaust it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from psclust.testing.wait import wait_until

_GROUPS = Path("/sys/fs/cgroup")


@contextmanager
def small_memory(limit: int) -> Iterator[tuple[str, ...]]:
    """The beginning of a command that runs with `limit` bytes at most. Skips the test where no such
    group can be made."""
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
        yield "sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"
    finally:
        processes = group / "cgroup.procs"
        wait_until(lambda: not processes.read_text(), what="the end of all in the control group")
        group.rmdir()
