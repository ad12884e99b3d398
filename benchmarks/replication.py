"""How many batches a second each way of training makes, against the same model written by hand and
against ParameterServerStrategy.

    python benchmarks/replication.py [--models small large embedding] [--ps 2] [--workers 2]
                                     [--rounds 3] [--seconds 4]

All ways train the model of `training/models.py` on the same cluster, started by `psclust up`, on
one batch that every step uses again. A batch is one gradient of one worker: a synchronous step of
two workers counts two. Every client says which step it has reached a few times a second; the first
one's lines of `--seconds`, after three seconds in which all clients come in, give the rate. The
ways take turns, several rounds each; a ratio is the median over the rounds of the two rates of the
same round. By hand: `replica_device_setter` and MonitoredTrainingSession, synchronous with
SyncReplicasOptimizer. On an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rows
from rivals import RIVAL

HERE = Path(__file__).parent / "training"
WARM_S = 3.0
_STEP = re.compile(r"^(worker:0|client:0|chief:0) +\| step (\d+)")


@dataclass(frozen=True)
class Way:
    """name: as in the table. arguments: of `psclust up`, `{model}` filled in. sync: whether a step
    is a batch of every worker. against: the ways it is compared with."""

    name: str
    arguments: Sequence[str]
    sync: bool = False
    against: Sequence[str] = ()


OURS = ("ours:{model}", "--log-seconds", "0.25")
WAYS = (
    Way("by hand async", (*RIVAL, "by_hand.py", "--model", "{model}")),
    Way("by hand sync", (*RIVAL, "by_hand.py", "--model", "{model}", "--sync"), sync=True),
    Way("coordinator", (*RIVAL, "--replication", "coordinator", "coordinator.py", "{model}")),
    Way("between-graph async", ("--async", *OURS), against=("by hand async", "coordinator")),
    Way(
        "in-graph async",
        ("--replication", "in-graph", "--async", *OURS),
        against=("by hand async", "coordinator"),
    ),
    Way(
        "between-graph sync", ("--sync", *OURS), sync=True, against=("by hand sync", "coordinator")
    ),
    Way(
        "in-graph sync",
        ("--replication", "in-graph", "--sync", *OURS),
        sync=True,
        against=("by hand sync", "coordinator"),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=["small", "large", "embedding"],
        choices=["small", "large", "embedding"],
    )
    parser.add_argument(
        "--ways", nargs="+", default=[way.name for way in WAYS], choices=[way.name for way in WAYS]
    )
    parser.add_argument("--ps", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    rows.add_json(parser)
    options = parser.parse_args()
    found: list[rows.Row] = []
    ways = [way for way in WAYS if way.name in options.ways]
    print(f"{'model':<10} {'way':<20} {'batches/s':>10}  times as many as")
    for model in options.models:
        rates: dict[str, list[float]] = {way.name: [] for way in ways}
        for _ in range(options.rounds):
            for way in ways:
                rates[way.name].append(
                    measure(way, model, options.ps, options.workers, options.seconds)
                )
        for way in ways:
            show(model, way, rates)
            found.append(rows.Row("replication", model, way.name, "batches/s", rates[way.name]))
    rows.write(options.json, found)


def show(model: str, way: Way, rates: dict[str, list[float]]) -> None:
    mine, ratios = rates[way.name], []
    for other in way.against:
        if other in rates:
            ratio = statistics.median(a / b for a, b in zip(mine, rates[other], strict=True))
            ratios.append(f"{other}: {ratio:.2f}")
    line = f"{model:<10} {way.name:<20} {statistics.median(mine):>10.1f}  {', '.join(ratios)}"
    print(line.rstrip(), flush=True)


def measure(way: Way, model: str, ps: int, workers: int, seconds: float) -> float:
    """Batches a second."""
    arguments = [argument.format(model=model) for argument in way.arguments]
    with training(["--ps", str(ps), "--workers", str(workers), *arguments]) as lines:
        now, first = next(lines)
        warm = now + WARM_S
        while now < warm:
            now, first = next(lines)
        start, last = now, first
        while now < start + seconds:
            now, last = next(lines)
    return (last - first) / (now - start) * (workers if way.sync else 1)


@contextmanager
def training(arguments: Sequence[str]) -> Iterator[Iterator[tuple[float, int]]]:
    """Runs `psclust up`; yields when the first client reached which step."""
    with tempfile.TemporaryDirectory() as state:
        command = [
            sys.executable,
            "-m",
            "psclust",
            "up",
            "--run-dir",
            state,
            "--name",
            "bench",
            *arguments,
        ]
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
        process = subprocess.Popen(
            command,
            cwd=HERE,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield steps(process)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def steps(process: subprocess.Popen[str]) -> Iterator[tuple[float, int]]:
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        found = _STEP.match(line)
        if found:
            yield time.monotonic(), int(found[2])
    sys.exit("the training ended too soon:\n" + "".join(said))


if __name__ == "__main__":
    main()
