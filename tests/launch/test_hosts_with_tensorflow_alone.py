"""What docs/hosts.md says a host needs, and nothing beside it: a Python with the result of `pip
install tensorflow`."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from staged_waits import SLEEPER

from beds.command import CommandBed
from beds.hosts import HostBed, host_bed
from psclust.examples.digits import write_digits
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

ROOT = Path(__file__).parents[2]
# Requirements of psclust's launcher that TensorFlow does not bring, and the examples' data.
LAUNCHER_ONLY = (
    "psutil",
    "pydantic",
    "yaml",
    "click",
    "fabric",
    "paramiko",
    "pathspec",
    "sklearn",
    "psclust",
)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostBed]:
    with host_bed(tmp_path_factory.mktemp("bed") / "hosts", 2) as hosts:
        make_environment(hosts.shared / "env", "tensorflow")
        write_digits(hosts.shared / "digits")
        yield hosts


@pytest.fixture
def bare(apart: CommandBed, hosts: HostBed) -> CommandBed:
    data = {
        "hosts": hosts.names,
        "python": f"{hosts.shared}/env/bin/python",
        "jobs": {"ps": 1, "worker": 2},
    }
    args = ["--max-steps", "20", "--set", f"data_dir={hosts.shared}/digits"]
    apart.write(
        "psclust.yaml",
        json.dumps({**data, "program": "psclust.examples.digits:program", "args": args}),
    )
    return apart


def make_environment(folder: Path, *names: str) -> Path:
    """A virtual environment with links to the distributions of this one that `pip install NAMES`
    installs; its packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for found in closure(*names):
        for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            if not (
                packages / top
            ).exists():  # distributions share the folder of a namespace package
                (packages / top).symlink_to(Path(str(found.locate_file(top))))
    return packages


def closure(*names: str) -> list[importlib.metadata.Distribution]:
    """These distributions and all that they require."""
    found: dict[str, importlib.metadata.Distribution] = {}
    todo = [*names]
    while todo:
        distribution = importlib.metadata.distribution(todo.pop())
        if distribution.name not in found:
            found[distribution.name] = distribution
            requirements = map(Requirement, distribution.requires or [])
            todo += [
                each.name
                for each in requirements
                if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    return list(found.values())


def test_the_environment_has_nothing_else_of_what_the_launcher_needs(hosts: HostBed) -> None:
    script = (
        "from importlib.util import find_spec; "
        f"print([name for name in {LAUNCHER_ONLY} if find_spec(name)])"
    )
    assert hosts[0].run(f"{hosts.shared}/env/bin/python", "-I", "-c", script) == "[]\n"


def test_doctor_finds_no_problem(bare: CommandBed) -> None:
    assert bare.done("doctor").splitlines()[-1] == "A cluster can start here."


@pytest.mark.parametrize(
    ("replication", "update"),
    [
        pytest.param("in-graph", "--async", marks=pytest.mark.long),
        ("between-graph", "--sync"),
        pytest.param("in-graph", "--sync", marks=pytest.mark.long),
        pytest.param("between-graph", "--async", marks=pytest.mark.long),
    ],
)
def test_the_digits_train(bare: CommandBed, replication: str, update: str) -> None:
    assert "evaluation: accuracy" in bare.done("up", "--replication", replication, update)
    assert {task.host for task in bare.status().tasks} == {"h1", "h2"}


@pytest.mark.long
def test_they_train_for_a_launcher_that_is_installed_without_tensorflow(
    bare: CommandBed, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (names,) = re.findall(r"^    pip install (click .*)$", page, re.MULTILINE)
    packages = make_environment(tmp_path / "launcher", *names.split())
    (packages / "checkout.pth").write_text(str(ROOT), encoding="utf-8")
    bare.command = (str(tmp_path / "launcher" / "bin" / "python"), "-m", "psclust")
    assert "no TensorFlow" in bare.run("--version")[1]
    code, said = bare.run("up")
    assert code == 0, said
    assert "evaluation: accuracy" in said


@pytest.mark.long
@pytest.mark.parametrize("preload", [True, False])
def test_why_knows_the_line_without_py_spy(
    bare: CommandBed, hosts: HostBed, *, preload: bool
) -> None:
    bare.write("train.py", SLEEPER)
    python = f"{hosts.shared}/env/bin/python"
    data = {
        "hosts": hosts.names,
        "python": python,
        "jobs": {"worker": 1},
        "program": "train.py",
        "role_by": "none",
        "preload": preload,
    }
    bare.write("psclust.yaml", json.dumps(data))
    bare.done("up", "-d")

    def slept() -> bool:
        (found,) = json.loads(bare.run("why", "--json")[1])
        return bool(
            found["does"] == "in its own code: nap (train.py:4)"
            and found["stack"][1] == "<module> (train.py:5)"
        )

    wait_until(slept, 60.0, what="the line")
    bare.done("down")
