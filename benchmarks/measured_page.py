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
    """A Markdown table, ways down and cases across; the other way round if there are more cases."""
    cases, ways = (
        list(dict.fromkeys(names))
        for names in ([row.case for row in found], [row.way for row in found])
    )
    down = 1 if len(cases) > len(ways) else 0  # the place of what goes down
    cells = {
        ((row.way, row.case)[down], (row.way, row.case)[1 - down], row.unit): f"{row.value:.3g}"
        for row in found
    }
    columns = list(dict.fromkeys(cell[1:] for cell in cells))
    lines = [["", *(f"{name}: {unit}" for name, unit in columns)], ["---"] * (len(columns) + 1)]
    lines += [
        [name, *(cells.get((name, *column), "") for column in columns)]
        for name in (ways, cases)[down]
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
