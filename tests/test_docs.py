"""What docs/architecture.md and docs/glossary.md say about the code is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from test_layers import LAUNCHER, LAUNCHER_PARTS, SHARED, TASK_PARTS, TASK_SIDE

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILE_NAME = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|proto|c|md|yaml))`")


def column(figure: list[str], start: int, end: int | None) -> list[list[str]]:
    return [cell.split() for line in figure if (cell := line[start:end].strip())]


def test_the_figure_shows_the_layers() -> None:
    figure = re.search(r"^    LAUNCHER .*?(?=^\S)", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert figure
    title, *lines = figure[0].rstrip().splitlines()
    middle = title.index("TASK SIDE")
    left, right = column(lines, 0, middle), column(lines, middle, None)
    assert {part.rstrip("*") for floor in left for part in floor if part.endswith("*")} == SHARED
    assert [{part.rstrip("*") for part in floor} for floor in left] == [
        set(floor) for floor in reversed(LAUNCHER)
    ]
    assert [set(floor) for floor in right] == [set(floor) for floor in reversed(TASK_SIDE)]


def test_every_part_is_described() -> None:
    described = {
        name
        for row in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", ARCHITECTURE, re.MULTILINE)
        for name in re.findall(r"\w+", row)
    }
    assert described == LAUNCHER_PARTS | TASK_PARTS


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"])
def test_every_named_file_exists(page: str) -> None:
    names = set(FILE_NAME.findall((ROOT / page).read_text(encoding="utf-8")))
    assert len(names) > 10
    assert [
        name
        for name in sorted(names)
        if not (ROOT / name).exists() and not (ROOT / "psclust" / name).exists()
    ] == []
