"""All benchmarks in one go: their numbers as JSON, tables and figures, in docs/performance.md and
the folder beside it.

    make bench                                     # or: python benchmarks/suite.py
    python benchmarks/suite.py --only launch wire  # measures these anew, keeps the other numbers
    python benchmarks/suite.py --only              # measures nothing, draws what is there
    make bench bench="--quick"                     # the main rows, beside the page's numbers

As root, on an otherwise idle machine with 17 GB; all of it takes about three hours, with `--rounds
1` about one. Rivals are measured in the same run as what they are compared with. `--torch PYTHON`
gives an interpreter with PyTorch, a rival on the wire. What rounding on the wire costs in accuracy
is measured apart, by `wire_accuracy.py`.

`--quick` takes about five minutes: one round of the main rows of the wire, for two models at 1
Gbit/s. It prints them and changes no file.
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
import runs
from measured_page import fill

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
MEASURED = DOCS / "performance" / "measured.json"
BENCHMARKS: Mapping[str, Sequence[Sequence[str]]] = {
    "placement": [[]],
    "first_step": [[]],
    "recovery": [[]],
    "lost_host": [[]],
    "launch": [["--servers", "1", "4", "16", "64", "128", "256"]],
    "replication": [[]],
    "loop": [[]],
    "hosts": [[]],
    "scale": [[]],
    "wire": [
        ["--gbit", "1", "10", "--models", "skewed", "small", "large", "embedding"],
        ["--table", "hooks", "--models", "skewed", "large"],
        ["--table", "best", "--gbit", "1", "10", "--models", "skewed", "large"],
        ["--table", "encrypted", "--models", "skewed", "small"],
    ],
}
WITH_ROUNDS = ("first_step", "launch", "replication", "loop", "hosts", "wire")
QUICK = ["--models", "skewed", "small", "--rounds", "1", "--steps", "5"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", nargs="*", default=list(BENCHMARKS), choices=list(BENCHMARKS))
    which.add_argument("--quick", action="store_true", help="the main rows, in five minutes")
    parser.add_argument("--rounds", type=int, help="of those benchmarks that have rounds")
    parser.add_argument("--torch", type=runs.torch_on_hosts, help="an interpreter with PyTorch")
    options = parser.parse_args()
    torch = ["--torch", options.torch] if options.torch else []
    rounds = ["--rounds", str(options.rounds)] if options.rounds else []
    found = rows.read(MEASURED) if MEASURED.exists() else []
    if options.quick:
        print(rows.compared(run("wire", [*QUICK, *rounds, *torch]), found))
        return
    MEASURED.parent.mkdir(exist_ok=True)
    for name in options.only:
        print(f"== {name}", flush=True)
        more = [*(torch if name == "wire" else ()), *(rounds if name in WITH_ROUNDS else ())]
        for arguments in BENCHMARKS[name]:
            measured = run(name, [*arguments, *more])
            found = rows.replaced(found, measured)
            # At once: what comes later may fail.
            rows.write(MEASURED, found)
    plots.draw(found, MEASURED.parent)
    fill(DOCS / "performance.md", found)
    print(f"on {platform.machine()}, {os.cpu_count()} cores; see {DOCS / 'performance.md'}")


def run(name: str, arguments: Sequence[str]) -> list[rows.Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        subprocess.run(
            [sys.executable, str(HERE / f"{name}.py"), *arguments, "--json", str(path)], check=True
        )
        return rows.read(path)


if __name__ == "__main__":
    main()
