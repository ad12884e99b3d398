"""Seconds a step on hosts whose links are shaped, against rivals and against what the wire itself allows.

    python benchmarks/wire.py [--gbit 1] [--ways ...] [--steps 8] [--rounds 3]

Four hosts of `psclust.testing.hosts`, 2 ps and 2 workers, each link shaped to `--gbit` by tc's tbf at both ends; the model is `skewed` of
`training/models.py`, 89 MB of dense variables and hardly any computation. Every worker says its steps; the time of a step of one worker is
the mean of `--steps` after the first six; medians of the rounds, in which the ways take turns. All hosts share the cores of this machine.
As root, on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from psclust.testing.hosts import HostBed, host_bed

HERE = Path(__file__).parent / "training"
MODEL_MB = 89.4
_STEP = re.compile(r"^(\S+:0) +\| .*?step (\d+)")
CUT = ("--placement", "balanced", "--max-shard-bytes", "8MB")
OURS = ("ours:skewed", "--log-seconds", "0.1")
HALF = ("--config", "wire_dtype=bfloat16")
QUARTER = ("--config", "wire_dtype=int8")
WAYS: Mapping[str, Sequence[str]] = {
    "by hand, round robin": ("by_hand.py", "--model", "skewed"),
    "by hand, tuned": ("by_hand_tuned.py",),
    "by hand, tuned, bfloat16": ("by_hand_tuned.py", "--bfloat16"),
    "coordinator": ("--replication", "coordinator", "coordinator.py", "skewed", "8MB"),
    "between-graph async": (*CUT, "--async", *OURS),
    "between-graph async, no copies": (*CUT, "--async", *OURS, "--config", "local_copies=false"),
    "between-graph async, bfloat16": (*CUT, "--async", *OURS, *HALF),
    "between-graph async, int8": (*CUT, "--async", *OURS, *QUARTER),
    "between-graph sync": (*CUT, "--sync", *OURS),
    "between-graph sync, no copies": (*CUT, "--sync", *OURS, "--config", "local_copies=false"),
    "between-graph sync, bfloat16": (*CUT, "--sync", *OURS, *HALF),
    "between-graph sync, int8": (*CUT, "--sync", *OURS, *QUARTER),
    "in-graph sync": (*CUT, "--replication", "in-graph", "--sync", *OURS),
    "in-graph sync, no copies": (*CUT, "--replication", "in-graph", "--sync", *OURS, "--config", "local_copies=false"),
    "in-graph sync, bfloat16": (*CUT, "--replication", "in-graph", "--sync", *OURS, *HALF),
    "in-graph sync, int8": (*CUT, "--replication", "in-graph", "--sync", *OURS, *QUARTER),
}
# A step that is counted is one of each worker, except where workers count their own together.
_COUNTED_TOGETHER = ("by hand", "coordinator", "between-graph async")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gbit", type=float, default=1.0)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("hosts are network namespaces: run it as root")
    found: dict[str, list[float]] = {way: [] for way in options.ways}
    with tempfile.TemporaryDirectory(prefix="psclust-bench-") as folder, host_bed(Path(folder) / "hosts", 4) as bed:
        shape(bed, options.gbit)
        shutil.copytree(HERE, bed.shared / "training")
        for _ in range(options.rounds):
            for way, times in found.items():
                times.append(measure(bed, WAYS[way], options.steps) * (2 if way.startswith(_COUNTED_TOGETHER) else 1))
                print(f"{way:<32} {times[-1]:6.2f} s", file=sys.stderr, flush=True)
    bound = MODEL_MB / (options.gbit * 119.6)
    print(f"{'way':<32} {'s/step':>7}")
    for way, times in found.items():
        print(f"{way:<32} {statistics.median(times):>7.2f}")
    print(f"{'the wire, both ways at once':<32} {bound:>7.2f}")


def shape(bed: HostBed, gbit: float) -> None:
    """Limits the link of every host at both ends."""
    for index, host in enumerate(bed.hosts):
        assert host.network is not None
        limit = ["root", "tbf", "rate", f"{gbit}gbit", "burst", f"{max(256, round(256 * gbit))}kb", "latency", "50ms"]
        subprocess.run(["tc", "qdisc", "add", "dev", f"{host.network.bridge}-{index + 1}", *limit], check=True)
        subprocess.run(host.command("tc", "qdisc", "add", "dev", "eth0", *limit), check=True)


def measure(bed: HostBed, arguments: Sequence[str], steps: int) -> float:
    """Seconds between two steps that a worker says."""
    with tempfile.TemporaryDirectory() as state:
        environ = {**os.environ, "HOME": str(bed.home), "PSCLUST_STATE": state, "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-m", "psclust", "up", "-H", bed.names, "--name", "bench", "--ps", "2", "--workers", "2", *arguments]
        up = subprocess.Popen(
            command, cwd=bed.shared / "training", env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            said = said_steps(up)
            first = next((now, step) for now, step in said if step > 6)
            last = next((now, step) for now, step in said if step >= first[1] + steps)
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate()
    return (last[0] - first[0]) / (last[1] - first[1])


def said_steps(up: subprocess.Popen[str]) -> Iterator[tuple[float, int]]:
    assert up.stdout is not None
    said = []
    for line in up.stdout:
        said.append(line)
        if found := _STEP.match(line):
            yield time.monotonic(), int(found[2])
    sys.exit("the training ended too soon:\n" + "".join(said))


if __name__ == "__main__":
    main()
