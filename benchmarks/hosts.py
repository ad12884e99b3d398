"""What a host more costs: a cluster of bare servers on 1, 2, 4, ... hosts, from `psclust up` to the
last server, and down again.

    python benchmarks/hosts.py [--hosts 1 2 4 8 16] [--rounds 3] [--ps 1] [--workers 3]

The hosts are those of `tests/beds/hosts.py`: namespaces of this machine, a real sshd in each.
They share its cores: what many machines would do at the same time is done here one after the other.
`--ps` and `--workers` are a host's. As root, on an otherwise idle machine, with a psclust that `pip
install .` has put in place (an editable one costs every Python that starts 15 ms); medians of the
rounds, in which the sizes take turns. On a virtual machine the first rounds may also pay for memory
that its host has taken back.

"up": seconds from the start of the command until it says that all servers answer. "a host more": by
how many seconds more than on the fewest hosts, for each host more. "down": from `psclust down`
until `up` has ended as well. "ps": `psclust ps` on the running cluster, start of the interpreter
included. "CPU": seconds of all processes until the cluster was up, of the launcher (`up` and the
supervisor) and of one host (sshd, agent, servers); unlike the time it does not depend on the number
of cores. "PSS": proportional memory in MB, of the launcher and of one host without its sshd; the
hosts share TensorFlow's code, so that the one of a single host is a real machine's.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import rows
import runs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from beds.hosts import BedHost, HostBed, host_bed

NAME = "bench"
COLUMNS = (
    "hosts",
    "servers",
    "up/s",
    "a host more/s",
    "down/s",
    "ps/s",
    "CPU/s here",
    "a host",
    "PSS/MB here",
    "a host",
)


@dataclass(frozen=True)
class Measurement:
    """Seconds, and MB; `host_cpu`, `host_pss`: the mean of the hosts."""

    up: float
    down: float
    ps: float
    cpu: float
    host_cpu: float
    pss: float
    host_pss: float


def main() -> None:
    parser = runs.parser(__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--ps", type=int, default=1, help="ps tasks on each host")
    parser.add_argument("--workers", type=int, default=3, help="worker tasks on each host")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("hosts are network namespaces: run it as root")
    rounds: dict[int, list[Measurement]] = {count: [] for count in sorted(options.hosts)}
    with (
        tempfile.TemporaryDirectory(prefix="psclust-bench-") as folder,
        host_bed(Path(folder) / "hosts", max(rounds)) as bed,
    ):
        for number in range(options.rounds):
            for count, found in rounds.items():
                found.append(
                    measure(
                        bed,
                        bed.hosts[:count],
                        Path(folder) / f"state-{number}-{count}",
                        options.ps,
                        options.workers,
                    )
                )
    print("  ".join(COLUMNS))
    medians = {count: median(found) for count, found in rounds.items()}
    fewest = min(medians)
    for count, each in medians.items():
        more = f"{(each.up - medians[fewest].up) / (count - fewest):.3f}" if count > fewest else ""
        servers = count * (options.ps + options.workers)
        numbers = [f"{value:.2f}" for value in (each.down, each.ps, each.cpu, each.host_cpu)]
        cells = [
            str(count),
            str(servers),
            f"{each.up:.2f}",
            more,
            *numbers,
            f"{each.pss:.0f}",
            f"{each.host_pss:.0f}",
        ]
        print(
            "  ".join(cell.rjust(len(column)) for cell, column in zip(cells, COLUMNS, strict=True)),
            flush=True,
        )

    units = {"up": "s", "down": "s", "ps": "s", "pss": "MB", "host_pss": "MB"}
    rows.write(
        options.json,
        [
            rows.Row("hosts", f"{count} hosts", name, unit, [getattr(each, name) for each in found])
            for count, found in rounds.items()
            for name, unit in units.items()
        ],
    )


def median(rounds: Sequence[Measurement]) -> Measurement:
    return Measurement(
        *(
            statistics.median(values)
            for values in zip(*(vars(each).values() for each in rounds), strict=True)
        )
    )


def measure(
    bed: HostBed, hosts: Sequence[BedHost], state: Path, ps: int, workers: int
) -> Measurement:
    environ = {**os.environ, "HOME": str(bed.home), "PSCLUST_STATE": str(state)}
    names, counts = (
        ",".join(host.name for host in hosts),
        [str(each * len(hosts)) for each in (ps, workers)],
    )
    before = sum(runs.cpu(host.processes()) for host in hosts)
    began = time.monotonic()
    up = psclust(
        environ,
        bed.shared,
        "up",
        "-H",
        names,
        "--name",
        NAME,
        "--ps",
        counts[0],
        "--workers",
        counts[1],
    )
    try:
        until_up(up)
        up_s = time.monotonic() - began
        here, there = (
            [psutil.Process(up.pid), *psutil.Process(up.pid).children(recursive=True)],
            [host.processes() for host in hosts],
        )
        here_cpu, host_cpu = runs.cpu(here), sum(map(runs.cpu, there)) - before
        tasks = [
            process
            for processes in there
            for process in processes
            if process.name() not in ("sshd", "sh", "sleep")
        ]
        here_pss, host_pss = memory(here), memory(tasks)
        ps_s = statistics.median(
            timed(lambda: psclust(environ, bed.shared, "ps")) for _ in range(5)
        )
        began = time.monotonic()
        psclust(environ, bed.shared, "down").communicate()
        up.communicate()
        down_s = time.monotonic() - began
    finally:
        up.kill()
    return Measurement(
        up_s, down_s, ps_s, here_cpu, host_cpu / len(hosts), here_pss, host_pss / len(hosts)
    )


def psclust(environ: Mapping[str, str], folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*runs.PSCLUST, *arguments],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )


def until_up(up: subprocess.Popen[str]) -> None:
    assert up.stdout is not None
    said = []
    for line in up.stdout:
        said.append(line)
        if f"{NAME} is up" in line:
            return
    sys.exit(f"the cluster did not come up:\n{''.join(said)}")


def timed(start: Callable[[], subprocess.Popen[str]]) -> float:
    began = time.monotonic()
    start().communicate()
    return time.monotonic() - began


def memory(processes: Iterable[psutil.Process]) -> float:
    """Proportional set size of all together, in MB."""
    return sum(process.memory_full_info().pss for process in processes) / 1e6


if __name__ == "__main__":
    main()
