"""The tables of docs/performance.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rows import Row

_TABLE = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(page: Path, found: Sequence[Row]) -> None:
    """Puts the tables of `found` between the page's marks."""

    def filled(match: re.Match[str]) -> str:
        return f"{match[1]}{table([row for row in found if row.benchmark == match[2]])}{match[3]}"

    page.write_text(_TABLE.sub(filled, page.read_text(encoding="utf-8")), encoding="utf-8")


def table(found: Sequence[Row]) -> str:
    """A Markdown table, ways down and cases across."""
    columns = list(dict.fromkeys((row.case, row.unit) for row in found))
    cells = {(row.way, row.case, row.unit): f"{row.value:.3g}" for row in found}
    lines = [["", *(f"{case}: {unit}" for case, unit in columns)], ["---"] * (len(columns) + 1)]
    lines += [[way, *(cells.get((way, *column), "") for column in columns)] for way in dict.fromkeys(row.way for row in found)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
