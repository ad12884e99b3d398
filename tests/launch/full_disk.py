"""A disk that can be filled: what a command keeps, on a file system of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from beds.command import CommandBed
from psclust.testing.wait import wait_until


@contextmanager
def on_small_disk(bed: CommandBed) -> Iterator[CommandBed]:
    """The bed, whose state directory is a file system of 256 KiB meanwhile. Skips the test where
    nothing can be mounted."""
    bed.state.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(bed.state)], capture_output=True
    ).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield bed
    finally:
        wait_until(
            lambda: subprocess.run(["umount", str(bed.state)], capture_output=True).returncode == 0,
            what="umount",
        )


def fill(disk: Path) -> None:
    """Write until there is no room."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 1024)
