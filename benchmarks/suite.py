"""All benchmarks in one go: their numbers as JSON, tables and figures, in docs/performance.md and
the folder beside it.

    make bench                                     # or: python benchmarks/suite.py
    python benchmarks/suite.py --only launch wire  # measures these anew, keeps the other numbers
    python benchmarks/suite.py --only              # measures nothing, draws what is there

As root, on an otherwise idle machine with 17 GB; all of it takes about two hours, with `--rounds 1`
fifty minutes. Rivals are measured in the same run as what they are compared with. `--torch PYTHON`
gives an interpreter with PyTorch, a rival on the wire. What rounding on the wire costs in accuracy
is measured apart, by `wire_accuracy.py`.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import plots
import rows
from measured_page import fill

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
MEASURED = DOCS / "performance" / "measured.json"
BENCHMARKS: Mapping[str, Sequence[Sequence[str]]] = {
    "placement": [[]],
    "first_step": [[]],
    "launch": [["--servers", "1", "4", "16", "64", "128", "256"]],
    "replication": [[]],
    "loop": [[]],
    "hosts": [[]],
    "scale": [[]],
    "wire": [
        ["--gbit", "1", "10"],
        ["--gbit", "1", "10", "--models", "small", "large", "embedding"],
    ],
}
WITH_ROUNDS = ("first_step", "launch", "replication", "loop", "hosts", "wire")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(BENCHMARKS), choices=list(BENCHMARKS))
    parser.add_argument("--rounds", type=int, help="of those benchmarks that have rounds")
    parser.add_argument("--torch", help="an interpreter with PyTorch")
    options = parser.parse_args()
    found = rows.read(MEASURED) if MEASURED.exists() else []
    MEASURED.parent.mkdir(exist_ok=True)
    for name in options.only:
        print(f"== {name}", flush=True)
        more = ["--torch", options.torch] if name == "wire" and options.torch else []
        more += ["--rounds", str(options.rounds)] if name in WITH_ROUNDS and options.rounds else []
        for arguments in BENCHMARKS[name]:
            measured = run(name, [*arguments, *more])
            found = replaced(found, measured)
            # At once: what comes later may fail.
            rows.write(MEASURED, found)
    plots.draw(found, MEASURED.parent)
    fill(DOCS / "performance.md", found)
    print(f"on {platform.machine()}, {os.cpu_count()} cores; see {DOCS / 'performance.md'}")


def replaced(found: Sequence[rows.Row], measured: Sequence[rows.Row]) -> list[rows.Row]:
    """`found` with what was measured anew, in its place."""
    anew = {_key(row): row for row in measured}
    kept = [anew.pop(_key(row), row) for row in found]
    return [*kept, *anew.values()]


def _key(row: rows.Row) -> tuple[str, ...]:
    return row.benchmark, row.case, row.way, row.unit


def run(name: str, arguments: Sequence[str]) -> list[rows.Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        subprocess.run(
            [sys.executable, str(HERE / f"{name}.py"), *arguments, "--json", str(path)], check=True
        )
        return rows.read(path)


if __name__ == "__main__":
    main()
