"""The command in a Python that has the packages of the one that runs the tests, but for some."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Collection
from pathlib import Path

from beds.command import CommandBed

ROOT = Path(__file__).parents[2]
# With it come packages that the launcher does without.
TENSORFLOW = ("tensorflow", "keras", "tf_keras", "tensorboard", "numpy")


def leave_out(bed: CommandBed, *modules: str) -> None:
    """The bed's commands are from now on those of a Python that has none of `modules`."""
    python = _make_environment(bed.folder.parent / "environment", modules)
    bed.command = (str(python), "-m", "psclust")


def _make_environment(folder: Path, without: Collection[str]) -> Path:
    """Its Python, which finds psclust in this checkout. without: names of modules; distributions
    of the same names are missing, too. All other packages are links."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300
    )
    (site,) = folder.glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        # `name`, `name.py`, `name-1.0.dist-info`, `name.cpython-311.so`
        name = re.split(r"[-.]", entry.name)[0].lower()
        if entry.suffix != ".pth" and name not in without:
            (site / entry.name).symlink_to(entry)
    (site / "checkout.pth").write_text(str(ROOT), encoding="utf-8")
    return folder / "bin" / "python"
