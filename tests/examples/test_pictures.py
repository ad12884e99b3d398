"""Pictures of what the examples learn, made by the command that made those of the documentation."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from psclust.examples.pictures import main

pytestmark = [pytest.mark.tensorflow, pytest.mark.process]

COMMITTED = Path(__file__).parents[2] / "docs" / "pictures"


def draw(folder: Path, name: str, steps: int) -> tuple[int, int]:
    """Width and height of the picture, in pixels."""
    words = ["-m", "psclust.examples.pictures", "--only", name, "--steps", str(steps), str(folder)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(folder / f"{name}.png")
    return size(folder / f"{name}.png")


def size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "steps"),
    [("masks", 2), ("words", 2), ("ways", 1)],
)
def test_a_picture_is_drawn_after_a_few_steps(tmp_path: Path, name: str, steps: int) -> None:
    assert draw(tmp_path, name, steps) == size(COMMITTED / f"{name}.png")


def test_without_matplotlib_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["/nowhere/pictures"]) == 2
    assert "pip install psclust[pictures]" in capsys.readouterr().err


def test_the_pictures_of_the_documentation_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in COMMITTED.iterdir()}
    assert max(sizes.values()) < 100_000, sizes
