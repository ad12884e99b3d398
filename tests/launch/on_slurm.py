"""What tests in a Slurm allocation share: the command in it, and ways to call that."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from beds.command import CommandBed
from beds.slurm import SlurmBed
from psclust.testing.wait import wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons need root")

PSCLUST = (sys.executable, "-m", "psclust")


def allocated(slurm: SlurmBed, folder: Path, *options: str) -> CommandBed:
    """A folder, which all nodes share, for a command in an allocation of its own, which it asks for
    with these options. All nodes are idle, so that it gets the first ones."""
    slurm.wait_until_idle()
    folder.mkdir(parents=True)
    return CommandBed(
        folder,
        {**slurm.environ, "XDG_CACHE_HOME": str(folder.parent / "cache")},
        ("salloc", "--quiet", *options, *PSCLUST),
    )


def wait_for_nothing_left(bed: CommandBed, slurm: SlurmBed) -> None:
    """Wait until no process of the bed lives and Slurm has no job; otherwise fail, naming what is
    alive, and end it."""
    try:
        wait_until(lambda: not bed.processes() and not slurm.jobs())
    except TimeoutError:
        pytest.fail(f"still alive: {[*slurm.jobs(), *bed.end()]}")


def wait_until_shown(tasks: int) -> str:
    """The end of a script that prints: its task ends once so many have come this far.

    A run that ends with its workers ends a ps that has not printed yet.
    """
    return f"""
import glob, sys, time
sys.stdout.flush()
open("shown-" + os.environ["PSCLUST_TASK"], "x").close()
deadline = time.monotonic() + 60
while len(glob.glob("shown-*")) < {tasks} and time.monotonic() < deadline:
    time.sleep(0.05)
"""
