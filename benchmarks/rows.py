"""What a benchmark has found, the same for all: rows with the numbers of every round, in a file
that `suite.py` collects."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One number of a benchmark. case: what was measured, such as a model or a count of servers.
    way: who did it. unit: of the number. rounds: the number in each round; those of one round may
    be compared with each other. command: as a user types it, where it differs between ways."""

    benchmark: str
    case: str
    way: str
    unit: str
    rounds: list[float]
    command: str | None = None

    @property
    def value(self) -> float:
        return statistics.median(self.rounds)


def write(path: Path | None, rows: Iterable[Row]) -> None:
    if path is not None:
        rounded = (
            replace(row, rounds=[float(f"{value:.5g}") for value in row.rounds]) for row in rows
        )
        lines = ",\n".join(json.dumps(_entry(row)) for row in rounded)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _entry(row: Row) -> dict[str, Any]:
    return {name: value for name, value in asdict(row).items() if value is not None}


def read(path: Path) -> list[Row]:
    return [Row(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def replaced(found: Sequence[Row], measured: Sequence[Row]) -> list[Row]:
    """`found` with what was measured anew, in its place. All rows of a case are of one sitting, so
    those that were not measured this time go."""
    anew: dict[tuple[str, str], list[Row]] = {}
    for row in measured:
        anew.setdefault((row.benchmark, row.case), []).append(row)
    cases = dict.fromkeys((row.benchmark, row.case) for row in [*found, *measured])
    return [
        row
        for case in cases
        for row in anew.get(case) or [row for row in found if (row.benchmark, row.case) == case]
    ]


def compared(measured: Sequence[Row], page: Sequence[Row]) -> str:
    """A line for each row, with the page's number."""
    there = {(row.benchmark, row.case, row.way): row.value for row in page}
    lines = [f"{'model':<8} {'way':<30} {'s/step':>7} {'page':>7}"]
    for row in measured:
        if row.unit == "s/step":
            known = there.get((row.benchmark, row.case, row.way))
            said = "" if known is None else f"{known:.3f}"
            lines.append(f"{row.case:<8} {row.way:<30} {row.value:>7.3f} {said:>7}".rstrip())
    return "\n".join(lines)
