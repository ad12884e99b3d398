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

import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import rows
import runs
from rivals import RIVAL

WARM_S = 3.0


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
    parser = runs.parser(__doc__)
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
    parser.add_argument("--seconds", type=float, default=4.0)
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
    with training(ps, workers, arguments) as lines:
        now, first = next(lines)
        warm = now + WARM_S
        while now < warm:
            now, first = next(lines)
        start, last = now, first
        while now < start + seconds:
            now, last = next(lines)
    return (last - first) / (now - start) * (workers if way.sync else 1)


@contextmanager
def training(
    ps: int, workers: int, arguments: Sequence[str]
) -> Iterator[Iterator[tuple[float, int]]]:
    """Runs `psclust up`; yields when the first client reached which step."""
    with tempfile.TemporaryDirectory() as state:
        path = os.pathsep.join([str(runs.TRAINING), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = runs.up(state, ps, workers, *arguments)
        with runs.training(command, runs.TRAINING, environ) as said:
            yield said


if __name__ == "__main__":
    main()
