"""A TensorFlow that nobody has seen: the one that is here, as another version and another build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from beds.command import CommandBed
from beds.learning import DIGITS
from psclust.spec.tensorflow_builds import (
    FITS,
    LIBRARY,
    NOTHING,
    VERIFIED,
    Fit,
    build_of,
    result_file,
)

pytestmark = [pytest.mark.process, pytest.mark.tensorflow, pytest.mark.long]

TRAIN = ["--ps", "1", "--workers", "2", DIGITS, "--max-steps", "40"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to what this environment has, but for what a TensorFlow 2.99 has of its own."""
    folder = tmp_path_factory.mktemp("made-up") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    spec = find_spec("tensorflow")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(
        Path(spec.origin).parent,
        packages / "tensorflow",
        copy_function=os.symlink,
        ignore=shutil.ignore_patterns("include"),
    )
    versions = packages / "tensorflow" / "python" / "framework" / "versions.py"
    text = versions.read_text(encoding="utf-8")
    versions.unlink()
    versions.write_text(f'{text}\n__version__ = VERSION = "2.99.0"\n', encoding="utf-8")
    library = packages / "tensorflow" / LIBRARY
    content = bytearray(library.read_bytes())
    content[48] ^= 1  # a flag of the ELF header without a meaning on this processor
    library.unlink()
    library.write_bytes(content)
    metadata = packages / "somebodys_tensorflow-2.99.0.dist-info"
    metadata.mkdir()
    (metadata / "top_level.txt").write_text("tensorflow\n", encoding="utf-8")
    (metadata / "METADATA").write_text("Name: somebodys_tensorflow\nVersion: 2.99.0\n")
    return folder


@pytest.fixture
def made_up(bed: CommandBed, environment: Path, tmp_path: Path) -> CommandBed:
    bed.environ["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    bed.environ["PSCLUST_UP_PYTHON"] = str(environment / "bin" / "python")
    return bed


def kept(bed: CommandBed, environment: Path) -> Path:
    """Where the result of the test of this build is."""
    build = build_of(str(next(environment.glob(f"lib/*/site-packages/tensorflow/{LIBRARY}"))))
    assert build is not None
    assert build not in VERIFIED
    return Path(result_file(build, str(Path(bed.environ["XDG_CACHE_HOME"]) / "psclust")))


def test_it_is_tested_once_and_all_that_fits_is_used(
    made_up: CommandBed, environment: Path
) -> None:
    python = str(environment / "bin" / "python")
    code, said = made_up.run("doctor", "--python", python)
    assert code == 0, said
    assert re.search(r"tensorflow +2\.99\.0", said), said
    assert "is not known: the first task to start tests whether psclust's kernels" in said
    code, said = made_up.run("up", *TRAIN)
    assert code == 0, said
    assert "not fit" not in said
    result = kept(made_up, environment)
    assert result.read_text() in map(str, FITS[:-2]), "a layout that is known"
    before = result.stat().st_mtime_ns
    assert "own wire fit this build" in made_up.run("doctor", "--python", python)[1]
    assert made_up.run("up", *TRAIN)[0] == 0
    assert result.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("fit", "said_by_chief", "row"),
    [
        (
            Fit(True),
            "psclust's own wire does not fit this build of TensorFlow, which says that it is "
            "2.99.0: TensorFlow's wire is used",
            "its own wire does not",
        ),
        (
            NOTHING,
            "psclust's kernels and its own wire do not fit this build of TensorFlow, which says "
            "that it is 2.99.0: TensorFlow's ops and wire are used",
            "psclust's kernels and its own wire do not fit",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_off_and_said_once(
    made_up: CommandBed, environment: Path, fit: Fit, said_by_chief: str, row: str
) -> None:
    result = kept(made_up, environment)
    result.parent.mkdir(parents=True)
    result.write_text(str(fit))
    code, said = made_up.run("up", *TRAIN)
    assert code == 0, said
    assert said.count("not fit") == said.count(said_by_chief) == 1, said
    assert re.search(r"evaluation: accuracy \S+", said), said
    code, said = made_up.run("doctor", "--python", str(environment / "bin" / "python"))
    assert code == 0, said
    assert row in " ".join(said.split())


def test_tasks_that_are_executed_find_psclust_which_that_python_lacks(
    made_up: CommandBed,
) -> None:
    code, said = made_up.run("up", "--no-preload", *TRAIN)
    assert code == 0, said
    assert re.search(r"evaluation: accuracy \S+", said), said
