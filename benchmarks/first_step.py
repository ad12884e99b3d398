"""Seconds from the command to the first step of a training: the digits with 2 ps and 2 workers, by
psclust and by hand.

    python benchmarks/first_step.py [--rounds 3]

By hand, four `python` processes are started at once, with ports chosen beforehand, which train the
same input and model (`training/digits_by_hand.py`). The two take turns. The first step is the first
that any worker says. On an otherwise idle machine.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import rows
import runs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from beds.free_ports import free_ports

BY_HAND = Path(__file__).parent / "training" / "digits_by_hand.py"
CASE = "digits, 2 ps and 2 workers"
_STEP = re.compile(r"\bstep \d+")


def main() -> None:
    options = runs.parser(__doc__).parse_args()
    times: dict[str, list[float]] = {"by hand": [], "between-graph": [], "in-graph": []}
    for _ in range(options.rounds):
        for way, each in times.items():
            each.append(by_hand() if way == "by hand" else psclust(way))
            print(f"{way:<14} {each[-1]:6.2f} s", file=sys.stderr, flush=True)
    found = [rows.Row("first_step", CASE, way, "s", each) for way, each in times.items()]
    for row in found:
        print(
            f"{row.way:<14} {row.value:6.2f} s   {row.value / found[0].value:.2f} of by hand",
            flush=True,
        )
    rows.write(options.json, found)


def psclust(replication: str) -> float:
    with tempfile.TemporaryDirectory() as state:
        program = ["psclust.examples.digits:program", "--log-seconds", "0.01"]
        command = runs.up(state, 2, 2, "--replication", replication, *program)
        began = time.monotonic()
        up = _start(command)
        try:
            return _first_step(up, began)
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate()


def by_hand() -> float:
    ports = free_ports(4)
    addresses = [f"127.0.0.1:{ports + index}" for index in range(4)]
    flags = ["--ps_hosts", ",".join(addresses[:2]), "--worker_hosts", ",".join(addresses[2:])]
    tasks = [("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1)]
    began = time.monotonic()
    processes = [
        _start(
            [sys.executable, str(BY_HAND), *flags, "--job_name", job, "--task_index", str(index)]
        )
        for job, index in tasks
    ]
    try:
        return _first_step(processes[0], began)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return runs.start(command, Path.cwd(), {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})


def _first_step(process: subprocess.Popen[str], began: float) -> float:
    assert process.stdout is not None
    for line in process.stdout:
        if _STEP.search(line):
            return time.monotonic() - began
    sys.exit(f"{process.args} ended before its first step")


if __name__ == "__main__":
    main()
