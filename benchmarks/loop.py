"""How much of a step a client of psclust is not in TensorFlow: its loop, which counts, reports and
looks whether to stop.

    python benchmarks/loop.py [--rounds 3]

One ps and one worker train `training/timed.py`, whose step takes about 10 ms. Its client takes the
time in which no run of its session is under way, from the end of one to the beginning of the next,
the mean of 300; a run of less than a millisecond, which looks whether to stop, say, is part of it.
Where a step begins while one is under way, that is next to nothing. On an otherwise idle machine.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile

import rows
import runs

WAYS = {
    "between-graph async": ("--async",),
    "between-graph sync": ("--sync",),
    "in-graph sync": ("--replication", "in-graph", "--sync"),
}
_SAID = re.compile(r"(\S+) ms a step, (\S+) ms between runs")


def main() -> None:
    options = runs.parser(__doc__).parse_args()
    found = {way: [measure(way) for _ in range(options.rounds)] for way in WAYS}
    print(f"{'way':<20} {'ms a step':>9} {'ms between runs':>15}")
    for way, rounds in found.items():
        step, between = (statistics.median(numbers) for numbers in zip(*rounds, strict=True))
        print(f"{way:<20} {step:>9.2f} {between:>15.4f} {between / step:>8.2%}")
    measured = [
        rows.Row("loop", name, way, "ms", [numbers[place] for numbers in found[way]])
        for way in WAYS
        for place, name in enumerate(("a step", "between runs"))
    ]
    rows.write(options.json, measured)


def measure(way: str) -> tuple[float, float]:
    """Milliseconds of a step, and of its part between runs."""
    with tempfile.TemporaryDirectory() as state:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(runs.TRAINING), os.environ.get("PYTHONPATH", "")]),
        }
        program = ["timed:program", "--max-steps", "500"]
        run = subprocess.run(
            runs.up(state, 1, 1, *WAYS[way], *program),
            cwd=runs.TRAINING,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    said = _SAID.search(run.stdout)
    if run.returncode != 0 or said is None:
        sys.exit(f"the training failed:\n{run.stdout}{run.stderr}")
    return float(said[1]), float(said[2])


if __name__ == "__main__":
    main()
