"""Seconds from a host's being cut off to the next step of the training, beyond the lease: the
digits on five hosts, with 1 ps and 2 workers, in each way to train; one or two are spare.

    python benchmarks/lost_host.py [--times 5] [--lease 5] [--only async sync in-graph]

Until the lease is over nobody can know whether a host is gone, so it is subtracted. The rest is
what psclust adds: agents and supervisor make sure that nothing runs there any more, the tasks move
to the spare host, and the programs start and read the checkpoint. "lost": until the supervisor
counts the host as lost. "start": until a task starts. The next step is the first of a new attempt.
The hosts are namespaces of this machine with a real sshd each; as root, on an otherwise idle
machine. Medians.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import recovery
import rows
import runs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from beds.hosts import HostBed, host_bed

VICTIMS = ("worker:1", "ps:0")
_PROGRAM = ("psclust.examples.digits:program", "--log-seconds", "0.001", "--set", "epochs=100000")
_FILE = """
hosts: [{hosts}]
deadlines: {{lease: {lease}}}
env: {{XDG_CACHE_HOME: {cache}}}
program: [{program}]
"""


def main() -> None:
    parser = runs.parser(__doc__, rounds=None)
    parser.add_argument("--times", type=int, default=5, help="cuts of each kind (5)")
    parser.add_argument("--lease", type=float, default=5.0, help="seconds (5)")
    parser.add_argument("--only", nargs="*", default=list(recovery.WAYS), choices=recovery.WAYS)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("hosts are network namespaces: run it as root")
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="psclust-bench-") as folder,
        host_bed(Path(folder) / "hosts", 5) as bed,
    ):
        for way in options.only:
            for victim in VICTIMS:
                each = [_lost(bed, way, victim, options.lease) for _ in range(options.times)]
                found.append(rows.Row("lost_host", way, victim, "s", [one[-1] for one in each]))
                lost, start, step = map(statistics.median, zip(*each, strict=True))
                parts = f"lost {lost:.1f}, start {start:.1f}"
                print(f"{way:<9} {victim:<9} lease + {step:.1f} s ({parts})", flush=True)
    rows.write(options.json, found)


def _lost(bed: HostBed, way: str, victim: str, lease_s: float) -> tuple[float, float, float]:
    """Seconds after the lease: (host lost, first program started, next step)."""
    with tempfile.TemporaryDirectory() as state:
        file = Path(state) / "cluster.yaml"
        names = ", ".join(host.name for host in bed.hosts)
        # All hosts see the data and the checkpoints.
        model = bed.shared / Path(state).name
        program = ", ".join(map(repr, (*_PROGRAM, "--model-dir", str(model))))
        keys = {"hosts": names, "lease": lease_s, "cache": bed.shared, "program": program}
        file.write_text(_FILE.format(**keys), encoding="utf-8")
        command = runs.up(state, 1, 2, *recovery.WAYS[way], "-f", str(file))
        up = subprocess.Popen(
            command,
            cwd=state,
            env={**os.environ, "HOME": str(bed.home), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=subprocess.DEVNULL,
        )
        try:
            folder = Path(state) / "bench" / "current"
            clients = ["client:0"] if way == "in-graph" else ["worker:0", "worker:1"]
            for client in clients:
                trained = recovery.log(folder, client, 1)
                recovery.until(lambda path=trained: recovery.steps(path) >= 100, up)
            where = next(
                event["host"]
                for event in recovery.events(folder)
                if recovery.is_of(event, "start", victim, 1)
            )
            host = next(host for host in bed.hosts if host.name == where)
            cut, clock = time.time(), time.monotonic()
            host.cut()
            try:
                again = [recovery.log(folder, client, 2) for client in clients]
                recovery.until(lambda: any(recovery.steps(path) for path in again), up)
            finally:
                host.heal()
            seconds = time.monotonic() - clock
            return (*_parts(recovery.events(folder), cut, lease_s), seconds - lease_s)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait()


def _parts(found: Sequence[Mapping[str, Any]], cut: float, lease_s: float) -> tuple[float, float]:
    lost = next(each["time"] for each in found if each["kind"] == "host_lost")
    start = next(each["time"] for each in found if each["kind"] == "start" and each["time"] > lost)
    return lost - cut - lease_s, start - cut - lease_s


if __name__ == "__main__":
    main()
