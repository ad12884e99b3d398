"""An sdist and a wheel are built from the tree, and the wheel alone runs the demo in a clean environment."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from psclust.testing.command import CommandBed

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Path]:
    """A virtual environment with nothing in it; half a gigabyte once it is filled, so it does not stay."""
    folder = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder)


def test_the_wheel_in_a_clean_environment_runs_the_demo(bed: CommandBed, environment: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    built = subprocess.run([sys.executable, "-m", "build", "--outdir", str(tmp_path / "dist"), str(tree)], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert list((tmp_path / "dist").glob("*.tar.gz"))
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("psclust/runtime/_bind_shim") for name in names)
    assert not any(name.startswith("tests/") for name in names)
    installed = subprocess.run(
        [str(environment / "bin" / "pip"), "install", "-q", f"{wheel}[examples]"], capture_output=True, text=True, timeout=600
    )
    assert installed.returncode == 0, installed.stderr
    shutil.copy(ROOT / "cluster_specs" / "digits.yaml", bed.folder)
    bed.command = (str(environment / "bin" / "psclust"),)
    code, said = bed.run("up", "-f", "digits.yaml")
    assert code == 0, said
    found = re.search(r"evaluation: accuracy (\S+) ", said)
    assert found, said
    assert float(found[1]) >= 0.96
    status = bed.status("digits")
    assert status is not None
    assert not bed.bound_ports(status)
