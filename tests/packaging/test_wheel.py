"""An sdist and a wheel are built from the tree, and what the wheel installs is enough."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

import psclust
from beds.command import CommandBed
from beds.learning import is_learned
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

ROOT = Path(__file__).parents[2]


# The glibc of TensorFlow 2.15's wheel, the oldest that psclust supports.
GLIBC = 17


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, without what was built in it."""
    tree = tmp_path_factory.mktemp("copied") / "tree"
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    return tree


@pytest.fixture(scope="module")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, and a wheel made from that."""
    folder = tmp_path_factory.mktemp("built")
    built = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(tree)],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Path]:
    """A virtual environment with nothing in it; half a gigabyte once it is filled, so it does not
    stay."""
    folder = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder)


def _install(environment: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    command = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", *arguments]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert installed.returncode == 0, installed.stderr


def test_it_has_psclust_and_its_libraries_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "psclust",
        f"psclust-{psclust.__version__}.dist-info",
    }
    assert [name for name in names if re.search(r"/(test_\w+|conftest|beds)\b", name)] == []
    testing = {name.rpartition("/")[2] for name in names if name.startswith("psclust/testing/")}
    assert testing == {"__init__.py", "pytest_plugin.py", "wait.py"}
    assert "psclust/cli/run_report/page.html" in names
    assert {name for name in names if name.endswith(".so")} == {
        f"psclust/native/{library}.abi3.so" for library in ("_server_shim", "_kernels", "_tls")
    }
    assert wheel.name.startswith(f"psclust-{psclust.__version__}-cp310-abi3-linux_")


def test_its_libraries_run_with_the_glibc_that_tensorflow_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        libraries = [archive.read(name) for name in archive.namelist() if name.endswith(".so")]
    for library in libraries:
        needed = [int(number) for number in re.findall(rb"\0GLIBC_2\.(\d+)", library)]
        assert needed
        assert max(needed) <= GLIBC


def test_the_sdist_has_what_a_wheel_is_built_from_and_no_tests(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "setup.py", "pyproject.toml"} <= names
    assert {
        f"psclust/native/{path.name}" for path in (ROOT / "psclust/native").glob("*.[ch]")
    } <= names
    assert {name for name in names if name.startswith("tests")} == set()


@pytest.mark.long
def test_installed_without_a_compiler_it_trains_at_full_speed(
    wheel: Path, bed: CommandBed, environment: Path
) -> None:
    # What psclust depends on is that of this environment; the psclust of this one is not found by
    # such a line.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    # Nothing but what the environment has, so no compiler either, and no checkout.
    bed.environ |= {"PATH": str(environment / "bin"), "PYTHONPATH": ""}
    _install(environment, "--no-deps", "--no-index", str(wheel), env=bed.environment())
    assert shutil.which("gcc", path=bed.environ["PATH"]) is None
    bed.command = (str(environment / "bin" / "psclust"),)
    running = bed.start("up", "--ps", "1", "--workers", "1", "psclust.examples.digits:program")
    ps = bed.wait_for("ps:0", "running").pid
    assert ps is not None
    for library in ("_server_shim", "_kernels"):
        wait_until(
            lambda path=f"{site}/psclust/native/{library}.abi3.so": path in maps(ps), what=library
        )
    # Its server's, and that of psclust's own wire, at which the worker is.
    wait_until(lambda: len(ports(ps)) == 2, what="psclust's own wire")
    assert running.wait() == 0, running.output
    assert is_learned(running.output), running.output
    assert "shim is missing" not in running.output
    bed.done("report")


def maps(pid: int) -> str:
    """The files that are loaded into a process."""
    return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def ports(pid: int) -> set[int]:
    """At which somebody has connected to a process."""
    found = psutil.Process(pid).net_connections("tcp")
    listening = {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}
    return {each.laddr.port for each in found if each.raddr and each.laddr.port in listening}


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


@pytest.mark.long
def test_make_wheel_gives_one_for_every_linux_with_that_glibc(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path / "tree")
    made = subprocess.run(
        ["make", "wheel", f"PYTHON={sys.executable}"],
        cwd=tmp_path / "tree",
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    dist = tmp_path / "tree" / "dist"
    (sdist,) = dist.glob("*.tar.gz")
    (wheel,) = dist.glob("*.whl")
    assert {*dist.iterdir()} == {sdist, wheel}
    assert re.search(rf"manylinux_2_{GLIBC}_{platform.machine()}\b", wheel.name)
