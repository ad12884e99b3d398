"""The tables of docs/performance.md hold the numbers that were measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import measured_page as page
import rows
from rows import Row, compared, replaced

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_as_the_suite_would_write_it(tmp_path: Path) -> None:
    copy = tmp_path / "performance.md"
    copy.write_text((DOCS / "performance.md").read_text())
    page.fill(copy, rows.read(DOCS / "performance" / "measured.json"))
    assert copy.read_text() == (DOCS / "performance.md").read_text()


WIRE = "wire at 1 Gbit/s"
TYPED = "psclust up ours:MODEL"
TABLES = {
    "the medians, with ways down and cases across": (
        [
            Row("wire", "skewed", "ours", "s/step", [1.0, 3.0, 2.0]),
            Row("wire", "small", "ours", "s/step", [0.0123456]),
            Row("wire", "skewed", "by hand", "s/step", [4.0]),
        ],
        """\
|  | skewed: s/step | small: s/step |
| --- | --- | --- |
| ours | 2 | 0.0123 |
| by hand | 4 |  |
""",
    ),
    "more cases than ways go down": (
        [
            Row("scale", "8 workers", "step", "s", [0.5]),
            Row("scale", "8 workers", "memory", "GB", [2.0]),
            Row("scale", "32 workers", "step", "s", [1.5]),
            Row("scale", "128 workers", "step", "s", [3.0]),
        ],
        """\
|  | step: s | memory: GB |
| --- | --- | --- |
| 8 workers | 0.5 | 2 |
| 32 workers | 1.5 |  |
| 128 workers | 3 |  |
""",
    ),
    "commands come last": (
        [
            Row(WIRE, "skewed", "ours", "s/step", [1.0], TYPED),
            Row(WIRE, "small", "ours", "s/step", [0.1], TYPED),
            Row(WIRE, "skewed", "the wire", "s/step", [0.75]),
        ],
        """\
|  | skewed: s/step | small: s/step | typed |
| --- | --- | --- | --- |
| ours | 1 | 0.1 | `psclust up ours:MODEL` |
| the wire | 0.75 |  |  |
""",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_has(case: str) -> None:
    found, table = TABLES[case]
    assert page.table(found) == table


def test_a_table_without_numbers_says_so(tmp_path: Path) -> None:
    copy = tmp_path / "performance.md"
    copy.write_text("<!-- measured: wire at 1 Gbit/s -->\nold\n<!-- end -->\n")
    page.fill(copy, [])
    assert "Not measured yet" in copy.read_text()
    assert "old" not in copy.read_text()


def test_rows_keep_their_commands_in_the_file(tmp_path: Path) -> None:
    found = [
        rows.Row(WIRE, "skewed", "ours", "s/step", [1.0], TYPED),
        rows.Row("loop", "a step", "ours", "ms", [2.0]),
    ]
    rows.write(tmp_path / "rows.json", found)
    assert rows.read(tmp_path / "rows.json") == found


def test_a_case_that_is_measured_anew_loses_its_old_rows() -> None:
    old, kept = Row("wire", "skewed", "gone", "s", [1.0]), Row("wire", "small", "ours", "s", [2.0])
    new = [Row("wire", "skewed", "ours", "s", [3.0]), Row("wire", "large", "ours", "s", [4.0])]
    assert replaced([old, kept], new) == [new[0], kept, new[1]]


def test_a_quick_run_is_shown_beside_the_page() -> None:
    measured = [
        Row(WIRE, "skewed", "ours", "s/step", [1.0]),
        Row(WIRE, "small", "new", "s/step", [0.5]),
    ]
    there = [Row(WIRE, "skewed", "ours", "s/step", [1.25])]
    lines = [line.split() for line in compared(measured, there).splitlines()[1:]]
    assert lines == [["skewed", "ours", "1.000", "1.250"], ["small", "new", "0.500"]]


def test_every_figure_of_the_page_is_there() -> None:
    for part in (DOCS / "performance.md").read_text().split("](performance/")[1:]:
        assert (DOCS / "performance" / part.split(")")[0]).is_file()
