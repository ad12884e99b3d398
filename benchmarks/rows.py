"""What a benchmark has found, the same for all: rows with the numbers of every round, in a file
that `suite.py` collects."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One number of a benchmark. case: what was measured, such as a model or a count of servers.
    way: who did it. unit: of the number. rounds: the number in each round; those of one round may
    be compared with each other."""

    benchmark: str
    case: str
    way: str
    unit: str
    rounds: list[float]

    @property
    def value(self) -> float:
        return statistics.median(self.rounds)


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that `write` obeys."""
    parser.add_argument("--json", type=Path, help="also write every number to this file")


def write(path: Path | None, rows: Iterable[Row]) -> None:
    if path is not None:
        rounded = (
            replace(row, rounds=[float(f"{value:.5g}") for value in row.rounds]) for row in rows
        )
        lines = ",\n".join(json.dumps(asdict(row)) for row in rounded)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def read(path: Path) -> list[Row]:
    return [Row(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
