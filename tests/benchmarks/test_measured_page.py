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


def test_a_table_of_commands_ends_with_them(page: ModuleType) -> None:
    from rows import Row

    found = [
        Row("wire at 1 Gbit/s", "skewed", "ours", "s/step", [1.0], "psclust up ours:MODEL"),
        Row("wire at 1 Gbit/s", "small", "ours", "s/step", [0.1], "psclust up ours:MODEL"),
        Row("wire at 1 Gbit/s", "skewed", "the wire", "s/step", [0.75]),
    ]
    assert page.table(found).splitlines() == [
        "|  | skewed: s/step | small: s/step | typed |",
        "| --- | --- | --- | --- |",
        "| ours | 1 | 0.1 | `psclust up ours:MODEL` |",
        "| the wire | 0.75 |  |  |",
    ]


def test_a_table_without_numbers_says_so(page: ModuleType, tmp_path: Path) -> None:
    copy = tmp_path / "performance.md"
    copy.write_text("<!-- measured: wire at 1 Gbit/s -->\nold\n<!-- end -->\n")
    page.fill(copy, [])
    assert "Not measured yet" in copy.read_text()
    assert "old" not in copy.read_text()


def test_rows_keep_their_commands_in_the_file(page: ModuleType, tmp_path: Path) -> None:
    import rows

    found = [
        rows.Row("wire at 1 Gbit/s", "skewed", "ours", "s/step", [1.0], "psclust up ours:MODEL"),
        rows.Row("loop", "a step", "ours", "ms", [2.0]),
    ]
    rows.write(tmp_path / "rows.json", found)
    assert rows.read(tmp_path / "rows.json") == found


def test_a_case_that_is_measured_anew_loses_its_old_rows(page: ModuleType) -> None:
    from rows import Row, replaced

    old, kept = Row("wire", "skewed", "gone", "s", [1.0]), Row("wire", "small", "ours", "s", [2.0])
    new = [Row("wire", "skewed", "ours", "s", [3.0]), Row("wire", "large", "ours", "s", [4.0])]
    assert replaced([old, kept], new) == [new[0], kept, new[1]]


def test_a_quick_run_is_shown_beside_the_page(page: ModuleType) -> None:
    from rows import Row, compared

    measured = [
        Row("wire at 1 Gbit/s", "skewed", "ours", "s/step", [1.0]),
        Row("wire at 1 Gbit/s", "small", "new", "s/step", [0.5]),
    ]
    there = [Row("wire at 1 Gbit/s", "skewed", "ours", "s/step", [1.25])]
    lines = [line.split() for line in compared(measured, there).splitlines()[1:]]
    assert lines == [["skewed", "ours", "1.000", "1.250"], ["small", "new", "0.500"]]


def test_every_figure_of_the_page_is_there(page: ModuleType) -> None:
    for part in (DOCS / "performance.md").read_text().split("](performance/")[1:]:
        assert (DOCS / "performance" / part.split(")")[0]).is_file()
