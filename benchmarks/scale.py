"""How a training grows on one machine: from 8 to 128 workers, against 1 to 16 ps.

    python benchmarks/scale.py [--workers 8 32 128] [--ps 1 4 16] [--updates sync async]
                               [--steps 100]

The `small` model of `training/models.py`, between-graph, started by `psclust up`. "up": seconds
until all servers answer. "first step": until the first worker says a step. "step": seconds of a
step (asynchronous: of as many updates as there are workers), the mean of `--steps` updates and
three seconds at least. "ps": `psclust ps` beside the training. "GB": proportional memory of all
processes. "down": from Ctrl-C to the end of `up`. On an otherwise idle machine; its cores are
shared by all tasks, so a step grows with the workers whatever psclust does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import psutil
import rows
import runs

SECONDS = 3.0
UNITS = {"up": "s", "first_step": "s", "step": "s", "ps": "s", "gigabytes": "GB", "down": "s"}
_SAID = re.compile(r"^(?:psclust: bench is (?P<up>up)\b|worker:0 +\| step (?P<step>\d+))")


@dataclass(frozen=True)
class Measurement:
    """Seconds, and GB of proportional memory."""

    up: float
    first_step: float
    step: float
    ps: float
    gigabytes: float
    down: float


def main() -> None:
    parser = runs.parser(__doc__, rounds=None)
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--ps", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument(
        "--updates", nargs="+", default=["sync", "async"], choices=["sync", "async"]
    )
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    found: list[rows.Row] = []
    names = [field.name for field in fields(Measurement)]
    print(
        f"{'workers':>7} {'ps':>3} {'update':<6}"
        + "".join(f"{name.replace('_', ' '):>11}" for name in names)
    )
    for update in options.updates:
        for workers in options.workers:
            for ps in options.ps:
                measured = measure(workers, ps, update, options.steps)
                print(
                    f"{workers:>7} {ps:>3} {update:<6}"
                    + "".join(f"{value:>11.2f}" for value in astuple(measured)),
                    flush=True,
                )
                case = f"{workers} workers, {ps} ps, {update}"
                found += [
                    rows.Row(
                        "scale",
                        case,
                        name.replace("_", " "),
                        UNITS[name],
                        [getattr(measured, name)],
                    )
                    for name in names
                ]
    rows.write(options.json, found)


def measure(workers: int, ps: int, update: str, steps: int) -> Measurement:
    with tempfile.TemporaryDirectory() as state:
        environ = {
            **os.environ,
            "PSCLUST_STATE": state,
            "PYTHONPATH": str(runs.TRAINING),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        program = ["ours:small", "--log-seconds", "0.5"]
        command = runs.up(state, ps, workers, f"--{update}", *program)
        began = time.monotonic()
        up = runs.start(command, runs.TRAINING, environ)
        try:
            up_at, first, last = _reached(_said(up), steps)
            listed = time.monotonic()
            subprocess.run(
                [*runs.PSCLUST, "ps"], env=environ, stdout=subprocess.DEVNULL, check=True
            )
            ps_s = time.monotonic() - listed
            gigabytes = _memory(up.pid, Path(state) / "bench" / "current" / "status.json")
        finally:
            up.send_signal(signal.SIGINT)
            ended = time.monotonic()
            up.communicate()
        down_s = time.monotonic() - ended
    updates = workers if update == "async" else 1
    step_s = (last[0] - first[0]) / (last[1] - first[1]) * updates
    return Measurement(up_at - began, first[0] - began, step_s, ps_s, gigabytes, down_s)


def _reached(
    said: Iterable[tuple[float, int | None]], steps: int
) -> tuple[float, tuple[float, int], tuple[float, int]]:
    """When the cluster was up; when which step was said first, and when one that is `steps` and
    SECONDS later. Where processes wait long for a core, a worker says steps before the cluster is
    said to be up, and several lines arrive at once."""
    up_at, first = 0.0, (0.0, 0)
    for now, step in said:
        if step is None:
            up_at = up_at or now
        elif not first[0]:
            first = now, step
        elif up_at and step >= first[1] + steps and now >= first[0] + SECONDS:
            return up_at, first, (now, step)
    raise AssertionError("`said` ends the program")


def _said(up: subprocess.Popen[str]) -> Iterator[tuple[float, int | None]]:
    """(when, the step that the first worker says; None: that the cluster is up)."""
    assert up.stdout is not None
    said = []
    for line in up.stdout:
        said.append(line)
        if found := _SAID.match(line):
            yield time.monotonic(), int(found["step"]) if found["step"] else None
    sys.exit("the training ended too soon:\n" + "".join(said[-50:]))


def _memory(up: int, status: Path) -> float:
    """Proportional set size of all processes of the run, in GB."""
    guard = psutil.Process(psutil.Process(json.loads(status.read_text())["supervisor"]).ppid())
    processes = {psutil.Process(up), guard, *guard.children(recursive=True)}
    return sum(process.memory_full_info().pss for process in processes) / 1e9


if __name__ == "__main__":
    main()
