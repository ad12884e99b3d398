"""The README's animation of a terminal, made again by its script."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def lines(picture: Path) -> list[str]:
    """The lines of its last frame, from a well-formed SVG."""
    root = ET.parse(picture).getroot()
    texts = {f"#{each.get('id')}": "".join(each.itertext()) for each in root.iter(f"{SVG}text")}
    placed = [
        (float(each.get("x", 0)), float(each.get("y", 0)), texts[each.get("href", "")])
        for each in root.iter(f"{SVG}use")
    ]
    last = max(x for x, _, _ in placed)
    return [text for _, _, text in sorted(each for each in placed if each[0] == last)]


def frames(picture: Path) -> int:
    return len(re.findall(r"%\{transform", picture.read_text(encoding="utf-8")))


def test_a_recorded_command_is_shown_line_by_line(tmp_path: Path) -> None:
    target = tmp_path / "up.svg"
    loop = "for i in 1 2 3; do echo '<line>' $i; sleep 0.5; done"
    command = ["up", "--name", "demo", "--ps", "0", "--workers", "2", "--", "bash", "-c", loop]
    made = subprocess.run(
        [sys.executable, str(DOCS / "terminal_picture.py"), str(target), "--", *command],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    first, *found = lines(target)
    assert first.startswith("$ psclust up --name demo")
    assert [line for line in found if line.startswith("worker:0 |")] == [
        f"worker:0 | <line> {number}" for number in (1, 2, 3)
    ]
    assert any(line.startswith("psclust: demo ended well after") for line in found)
    assert found[-1] == "psclust: a page about it: psclust report demo"
    assert frames(target) > 3
    assert str(tmp_path) not in target.read_text(encoding="utf-8")


def test_that_of_the_readme_shows_a_run_to_its_end() -> None:
    picture = DOCS / "pictures" / "up.svg"
    found = lines(picture)
    assert (
        found[0]
        == "$ psclust up --ps 2 --workers 2 psclust.examples.digits:program --model-dir model"
    )
    assert any("evaluation: accuracy 0.9" in line for line in found)
    assert frames(picture) > 10
    assert f"docs/pictures/{picture.name}" in (DOCS.parent / "README.md").read_text(
        encoding="utf-8"
    )
