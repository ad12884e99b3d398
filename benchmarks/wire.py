"""Seconds a step, and CPU seconds, on hosts whose links are shaped, against rivals and against what
the wire itself allows.

    python benchmarks/wire.py [--table main] [--gbit 1] [--models skewed] [--ways ...]
                              [--steps 8] [--rounds 3] [--torch PYTHON]

Four hosts of `tests/beds/hosts.py`, 2 ps and 2 workers, each link shaped to `--gbit` by tc's tbf at
both ends. All else is as it is for a user: every row is a command that he may type
(`wire_ways.py`), with psclust's defaults, this machine's congestion control and a session hook in
the program; but all are in the open, as rivals are by themselves. `--table encrypted` has what TLS,
psclust's default, adds, `--table hooks` programs with other hooks, `--table best` options that make
a step shorter.

The models are those of `training/models.py`; `skewed` has 89 MB of dense variables and hardly any
computation. A worker prints its step every two seconds, rivals twice a second; the time of a step
of one worker is the mean of `--steps` at least, and four seconds, after the first six; medians of
the rounds, in which the ways take turns. "CPU": of all processes on the hosts, while each worker
makes a step; what the kernel does outside of processes to move packets is not in it. "the wire":
the bytes of a step through the busiest link, both ways at once. `--torch`: an interpreter with
PyTorch (CPU), for DistributedDataParallel. As root, on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import rows
import runs
from wire_ways import TABLES, Way, ways_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from beds.hosts import HostBed, host_bed

# MB of float32 that a step of one worker pulls, and pushes.
MODEL_MB = {"skewed": 89.4, "small": 0.41, "large": 19.1, "embedding": 0.55}
# Of a link of 1 Gbit/s, in MB a second, without the headers of Ethernet, IP, TCP and HTTP/2.
MB_A_GBIT = 119.6
WARM_STEPS, LEAST_S = 6, 4.0
_HOSTS_FILE = """\
name: bench
hosts: {hosts}
encrypt: false
jobs: {{ps: 2, worker: 2}}
"""


@dataclass(frozen=True)
class Times:
    """Of a step of one worker, in each round."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def main() -> None:
    parser = runs.parser(__doc__)
    parser.add_argument("--table", default="main", choices=list(TABLES))
    parser.add_argument("--gbit", type=float, nargs="+", default=[1.0])
    parser.add_argument("--models", nargs="+", default=["skewed"], choices=list(MODEL_MB))
    parser.add_argument("--ways", nargs="+", help="of the table; default: all")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument(
        "--torch",
        type=runs.torch_on_hosts,
        help="an interpreter with PyTorch; without it DistributedDataParallel is left out",
    )
    options = parser.parse_args()
    if unknown := set(options.ways or ()) - set(TABLES[options.table]):
        parser.error(
            f"--ways: {', '.join(sorted(unknown))} is not in the table {options.table}, which has "
            + "; ".join(TABLES[options.table])
        )
    if os.geteuid() != 0:
        sys.exit("hosts are network namespaces: run it as root")
    found: list[rows.Row] = []
    with tempfile.TemporaryDirectory(prefix="psclust-bench-") as folder:
        for gbit in options.gbit:
            with host_bed(Path(folder) / f"hosts-{gbit:g}", 4) as bed:
                shape(bed, gbit)
                shutil.copytree(runs.TRAINING, bed.shared / "training")
                hosts_file = bed.shared / "training" / "hosts.yaml"
                hosts_file.write_text(_HOSTS_FILE.format(hosts=bed.names), encoding="utf-8")
                for model in options.models:
                    found += measure_all(bed, gbit, model, options)
    rows.write(options.json, found)


def measure_all(
    bed: HostBed, gbit: float, model: str, options: argparse.Namespace
) -> list[rows.Row]:
    ways = ways_of(options.table, model, options.ways, torch=options.torch is not None)
    times = {name: Times() for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            command = way.typed(gbit).replace("MODEL", model)
            start = ddp(bed, options.torch, command) if way.torch else psclust(bed, command)
            seconds, cpu = measure(bed, start, options.steps)
            times[name].seconds.append(seconds * (2 if way.together else 1))
            times[name].cpu.append(cpu * (2 if way.together else 1))
            said = f"{gbit:g} Gbit/s  {times[name].seconds[-1]:7.3f} s  {command}"
            print(said, file=sys.stderr, flush=True)
    found = found_rows(options.table, gbit, model, ways, times)
    show(f"{model}, {gbit:g} Gbit/s", found)
    return found


def found_rows(
    table: str, gbit: float, model: str, ways: Mapping[str, Way], times: Mapping[str, Times]
) -> list[rows.Row]:
    """The rows of each table of docs/performance.md."""
    link = f"{gbit:g} Gbit/s"
    benchmark, case = {
        "main": (f"wire at {link}", model),
        "hooks": ("wire, hooks", f"{model}, {link}"),
        "best": (f"wire, best at {link}", model),
        "encrypted": (f"wire, encrypted at {link}", model),
    }[table]
    found = [
        rows.Row(benchmark, case, name, "s/step", each.seconds, ways[name].typed(gbit))
        for name, each in times.items()
    ]
    bound = MODEL_MB[model] / (gbit * MB_A_GBIT)
    found.append(rows.Row(benchmark, case, "the wire", "s/step", [bound]))
    if table in ("main", "encrypted"):
        cpu = "wire, CPU" if table == "main" else "wire, encrypted, CPU"
        found += [
            rows.Row(cpu, f"{model}, {link}", name, "CPU s/step", each.cpu)
            for name, each in times.items()
        ]
    return found


def show(title: str, found: Sequence[rows.Row]) -> None:
    """Prints a line for each way."""
    cpu = {row.way: f"{row.value:.3f}" for row in found if row.unit == "CPU s/step"}
    width = max(len(row.way) for row in found)
    print(f"\n{title:<{width}} {'s/step':>7} {'CPU s':>7}  typed")
    for row in found:
        if row.unit == "s/step":
            line = f"{row.way:<{width}} {row.value:>7.3f} {cpu.get(row.way, ''):>7}"
            print(f"{line}  {row.command or ''}".rstrip(), flush=True)


def shape(bed: HostBed, gbit: float) -> None:
    """Limits the link of every host at both ends."""
    burst = f"{max(256, round(256 * gbit))}kb"
    limit = ["root", "tbf", "rate", f"{gbit}gbit", "burst", burst, "latency", "50ms"]
    for index, host in enumerate(bed.hosts):
        assert host.network is not None
        near, far = f"{host.network.bridge}-{index + 1}", "eth0"
        subprocess.run(["tc", "qdisc", "add", "dev", near, *limit], check=True)
        subprocess.run(host.command("tc", "qdisc", "add", "dev", far, *limit), check=True)


# Runs a way until it is left; yields when its first worker has said which step.
Start = Callable[[], AbstractContextManager[Iterator[tuple[float, int]]]]


def measure(bed: HostBed, start: Start, steps: int) -> tuple[float, float]:
    """Seconds, and CPU seconds of all hosts, between two steps that the first worker says."""
    with start() as said:
        first = next((now, step) for now, step in said if step > WARM_STEPS)
        before = host_cpu(bed)
        last = next(
            (now, step)
            for now, step in said
            if step >= first[1] + steps and now >= first[0] + LEAST_S
        )
        used = host_cpu(bed) - before
    made = last[1] - first[1]
    return (last[0] - first[0]) / made, used / made


def host_cpu(bed: HostBed) -> float:
    return sum(runs.cpu(host.processes()) for host in bed.hosts)


def psclust(bed: HostBed, command: str) -> Start:
    """command: begins with `psclust`."""

    @contextmanager
    def start() -> Iterator[Iterator[tuple[float, int]]]:
        with tempfile.TemporaryDirectory() as state:
            environ = {
                **os.environ,
                "HOME": str(bed.home),
                "PSCLUST_STATE": state,
                "TF_CPP_MIN_LOG_LEVEL": "3",
            }
            arguments = [*runs.PSCLUST, *shlex.split(command)[1:]]
            with runs.training(arguments, bed.shared / "training", environ) as said:
                yield said

    return start


def ddp(bed: HostBed, python: str, command: str) -> Start:
    """On the third and the fourth host, where the workers of the other ways are. command: variables
    first, then `python`."""
    workers = bed.hosts[2:]
    folder = bed.shared / "training"
    script = str(folder / "ddp.py")  # whole: a process begins in the root of its host

    @contextmanager
    def start() -> Iterator[Iterator[tuple[float, int]]]:
        processes = []
        for rank, host in enumerate(workers):
            words = shlex.split(
                command.replace("MASTER", workers[0].address).replace("RANK", str(rank))
            )
            at = words.index("python")
            variables = dict(word.split("=", 1) for word in words[:at])
            arguments = host.command(python, script, *words[at + 2 :])
            processes.append(runs.start(arguments, folder, {**os.environ, **variables}))
        try:
            yield runs.steps(processes[0])
        finally:
            for each in (process for host in workers for process in host.processes()):
                with suppress(psutil.Error):
                    if script in each.cmdline():
                        each.kill()
            for process in processes:
                process.communicate()

    return start


if __name__ == "__main__":
    main()
