"""What tests in a Slurm allocation share: the command in it, and ways to call that."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from psclust.testing.command import CommandBed
from psclust.testing.slurm import SlurmBed

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons need root")

PSCLUST = (sys.executable, "-m", "psclust")


def allocated(slurm: SlurmBed, folder: Path, *options: str) -> CommandBed:
    """A folder, which all nodes share, for a command in an allocation of its own, which it asks for with these options."""
    folder.mkdir(parents=True)
    return CommandBed(folder, {**slurm.environ, "XDG_CACHE_HOME": str(folder.parent / "cache")}, ("salloc", "--quiet", *options, *PSCLUST))
