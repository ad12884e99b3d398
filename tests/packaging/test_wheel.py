"""An sdist and a wheel are built from the tree, and what the wheel installs is enough."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beds.command import CommandBed
from beds.learning import is_learned

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    built = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(tree)],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    assert list((folder / "dist").glob("*.tar.gz"))
    return wheel


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Path]:
    """A virtual environment with nothing in it; half a gigabyte once it is filled, so it does not
    stay."""
    folder = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder)


def _install(environment: Path, *arguments: str) -> None:
    command = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", *arguments]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert installed.returncode == 0, installed.stderr


def test_it_has_the_libraries_and_the_page_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for library in ("_server_shim", "_kernels"):
        assert any(name.startswith(f"psclust/native/{library}") for name in names)
    assert "psclust/cli/run_report/page.html" in names
    assert not any(name.startswith(("tests/", "beds/")) for name in names)
    testing = {name.rpartition("/")[2] for name in names if name.startswith("psclust/testing/")}
    assert testing == {"__init__.py", "pytest_plugin.py", "wait.py"}


def test_what_it_installs_starts_a_cluster(wheel: Path, bed: CommandBed, environment: Path) -> None:
    # What psclust depends on is that of this environment; the psclust of this one is not found by
    # such a line.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    _install(environment, "--no-deps", str(wheel))
    bed.command = (str(environment / "bin" / "psclust"),)
    assert "shim is missing" not in bed.done("up", "-d", "--ps", "1", "--workers", "1")
    status = bed.status()
    assert len(bed.bound_ports(status)) == 2
    bed.done("down")
    assert not bed.bound_ports(status)
    bed.done("report")
    ask = [str(environment / "bin" / "python"), "-c", "import psclust; print(psclust.__file__)"]
    where = subprocess.run(ask, cwd=bed.folder, capture_output=True, text=True)
    assert where.stdout.startswith(str(site))


@pytest.mark.long
def test_with_what_it_depends_on_it_runs_the_demo(
    wheel: Path, bed: CommandBed, environment: Path
) -> None:
    _install(environment, f"{wheel}[examples]")
    shutil.copy(ROOT / "cluster_specs" / "digits.yaml", bed.folder)
    bed.command = (str(environment / "bin" / "psclust"),)
    said = bed.done("up", "-f", "digits.yaml")
    assert is_learned(said), said
    status = bed.status("digits")
    assert not bed.bound_ports(status)
