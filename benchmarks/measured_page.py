"""The tables of docs/performance.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rows import Row

_TABLE = re.compile(r"(<!-- measured: ([^>\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NOTHING = "Not measured yet: `make bench` puts a table here.\n"


def fill(page: Path, found: Sequence[Row]) -> None:
    """Puts the tables of `found` between the page's marks."""

    def filled(match: re.Match[str]) -> str:
        measured = [row for row in found if row.benchmark == match[2]]
        return f"{match[1]}{table(measured) if measured else _NOTHING}{match[3]}"

    page.write_text(_TABLE.sub(filled, page.read_text(encoding="utf-8")), encoding="utf-8")


def table(found: Sequence[Row]) -> str:
    """A Markdown table, ways down and cases across; the other way round if there are more cases. If
    commands were measured, the last column has the one of each way."""
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
    if typed := {row.way: f"`{row.command}`" for row in found if row.command}:
        lines[0].append("typed")
        lines[1].append("---")
        for line in lines[2:]:
            line.append(typed.get(line[0], ""))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
