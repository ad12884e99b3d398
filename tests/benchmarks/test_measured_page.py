"""The tables of docs/performance.md hold the numbers that were measured."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import measured_page

    return measured_page


def test_the_page_is_as_the_suite_would_write_it(page: ModuleType, tmp_path: Path) -> None:
    import rows

    copy = tmp_path / "performance.md"
    copy.write_text((DOCS / "performance.md").read_text())
    page.fill(copy, rows.read(DOCS / "performance" / "measured.json"))
    assert copy.read_text() == (DOCS / "performance.md").read_text()


def test_a_table_has_the_medians_with_ways_down_and_cases_across(page: ModuleType) -> None:
    from rows import Row

    found = [
        Row("wire", "skewed", "ours", "s/step", [1.0, 3.0, 2.0]),
        Row("wire", "small", "ours", "s/step", [0.0123456]),
        Row("wire", "skewed", "by hand", "s/step", [4.0]),
    ]
    assert page.table(found).splitlines() == [
        "|  | skewed: s/step | small: s/step |",
        "| --- | --- | --- |",
        "| ours | 2 | 0.0123 |",
        "| by hand | 4 |  |",
    ]


def test_more_cases_than_ways_go_down(page: ModuleType) -> None:
    from rows import Row

    found = [
        Row("scale", "8 workers", "step", "s", [0.5]),
        Row("scale", "8 workers", "memory", "GB", [2.0]),
        Row("scale", "32 workers", "step", "s", [1.5]),
        Row("scale", "128 workers", "step", "s", [3.0]),
    ]
    assert page.table(found).splitlines() == [
        "|  | step: s | memory: GB |",
        "| --- | --- | --- |",
        "| 8 workers | 0.5 | 2 |",
        "| 32 workers | 1.5 |  |",
        "| 128 workers | 3 |  |",
    ]


def test_every_figure_of_the_page_is_there(page: ModuleType) -> None:
    for part in (DOCS / "performance.md").read_text().split("](performance/")[1:]:
        assert (DOCS / "performance" / part.split(")")[0]).is_file()
