"""Seconds a step on hosts whose links are shaped, against rivals and against what the wire itself
allows.

    python benchmarks/wire.py [--gbit 1] [--models skewed] [--ways ...] [--steps 8] [--rounds 3]
                              [--torch PYTHON]

Four hosts of `tests/beds/hosts.py`, 2 ps and 2 workers, each link shaped to `--gbit` by tc's tbf
at both ends, TCP's cubic. The models are those of `training/models.py`; `skewed` has 89 MB of dense
variables and hardly any computation. psclust cuts variables into shards of 256 KB on links of 1
Gbit/s, where they travel as bfloat16 of 1 MB, as int8 of 2 MB, and on faster links into shards of 2
MB, where they travel in fewer bytes of 8 MB (`--shard`); the others into shards of 8 MB. `small`
and `embedding` are next to all in one variable. psclust leaves it whole, but for float32 at 1
Gbit/s: as `psclust plan` advises, it is cut into shards of 128 KiB and 32 MiB there, so that both
ps have a part, ParameterServerStrategy's as well. Every worker says its steps twice a second; the
time of a step of one worker is the mean of `--steps` at least, and four seconds, after the first
six; medians of the rounds, in which the ways take turns. "the wire": the bytes of a step through
the busiest link, both ways at once. `--torch`: an interpreter with PyTorch (CPU), for
DistributedDataParallel. All hosts share the cores of this machine, so every process computes an op
with one thread, TensorFlow's as PyTorch's, to which torchrun gives one. As root, on an otherwise
idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import rows
from rivals import RIVAL

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from beds.hosts import HostBed, host_bed

HERE = Path(__file__).parent / "training"
# MB of float32 that a step of one worker pulls, and pushes.
MODEL_MB = {"skewed": 89.4, "small": 0.41, "large": 19.1, "embedding": 0.55}
# What `psclust plan` advises to cut next to all of a model into, on 1 Gbit/s.
ADVISED_KIB = {"small": 128, "embedding": 32 << 10}
# Of a link of 1 Gbit/s, in MB a second, without the headers of Ethernet, IP, TCP and HTTP/2.
MB_A_GBIT = 119.6
CONGESTION_CONTROL = "cubic"  # Linux's default
WARM_STEPS, LEAST_S = 6, 4.0
_STEP = re.compile(r"^(\S+:0) +\| .*?step (\d+)")
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}
CUT = ("--placement", "balanced", "--max-shard-bytes", "{shard}")
OURS = ("ours:{model}", "--log-seconds", "0.5")
HALF = ("--config", "wire_dtype=bfloat16")
QUARTER = ("--config", "wire_dtype=int8")
IN_GRAPH = ("--replication", "in-graph")


@dataclass(frozen=True)
class Way:
    """arguments: of `psclust up` or ddp.py, `{model}`, `{shard}` and a rival's `{most}` filled in.
    together: whether a counted step is one of any worker, not one of each. skewed_only: for no
    other model."""

    arguments: Sequence[str] = ()
    together: bool = False
    skewed_only: bool = False


WAYS: Mapping[str, Way] = {
    "by hand, round robin": Way((*RIVAL, "by_hand.py", "--model", "{model}"), together=True),
    "by hand, tuned": Way((*RIVAL, "by_hand_tuned.py"), together=True, skewed_only=True),
    "by hand, tuned, bfloat16": Way(
        (*RIVAL, "by_hand_tuned.py", "--bfloat16"), together=True, skewed_only=True
    ),
    "ParameterServerStrategy": Way(
        (*RIVAL, "--replication", "coordinator", "coordinator.py", "{model}", "{most}"),
        together=True,
    ),
    "PyTorch DDP": Way(("{model}",)),
    "PyTorch DDP, fp16": Way(("{model}", "--half"), skewed_only=True),
    "between-graph async": Way((*CUT, "--async", *OURS), together=True),
    "between-graph async, no copies": Way(
        (*CUT, "--async", *OURS, "--config", "local_copies=false"), together=True
    ),
    "between-graph async, bfloat16": Way((*CUT, "--async", *OURS, *HALF), together=True),
    "between-graph async, int8": Way((*CUT, "--async", *OURS, *QUARTER), together=True),
    "between-graph sync": Way((*CUT, "--sync", *OURS)),
    "between-graph sync, no copies": Way((*CUT, "--sync", *OURS, "--config", "local_copies=false")),
    "between-graph sync, bfloat16": Way((*CUT, "--sync", *OURS, *HALF)),
    "between-graph sync, int8": Way((*CUT, "--sync", *OURS, *QUARTER)),
    "in-graph sync": Way((*CUT, *IN_GRAPH, "--sync", *OURS)),
    "in-graph sync, no copies": Way(
        (*CUT, *IN_GRAPH, "--sync", *OURS, "--config", "local_copies=false")
    ),
    "in-graph sync, bfloat16": Way((*CUT, *IN_GRAPH, "--sync", *OURS, *HALF)),
    "in-graph sync, int8": Way((*CUT, *IN_GRAPH, "--sync", *OURS, *QUARTER)),
}
# Not started by psclust: their arguments are those of ddp.py.
_DDP = ("PyTorch DDP", "PyTorch DDP, fp16")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gbit", type=float, nargs="+", default=[1.0])
    parser.add_argument("--models", nargs="+", default=["skewed"], choices=list(MODEL_MB))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shard", help="psclust's max_shard_bytes")
    parser.add_argument(
        "--torch",
        help="an interpreter with PyTorch; without it DistributedDataParallel is left out",
    )
    rows.add_json(parser)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("hosts are network namespaces: run it as root")
    found: list[rows.Row] = []
    with tempfile.TemporaryDirectory(prefix="psclust-bench-") as folder:
        for gbit in options.gbit:
            with host_bed(Path(folder) / f"hosts-{gbit:g}", 4) as bed:
                shape(bed, gbit)
                shutil.copytree(HERE, bed.shared / "training")
                for model in options.models:
                    found += measure_all(
                        bed, gbit, model, ways_of(options.ways, model, options.torch), options
                    )
    rows.write(options.json, found)


def ways_of(names: Sequence[str], model: str, torch: str | None) -> list[str]:
    return [
        way
        for way in names
        if (model == "skewed" or not WAYS[way].skewed_only) and (torch or way not in _DDP)
    ]


def measure_all(
    bed: HostBed, gbit: float, model: str, ways: Sequence[str], options: argparse.Namespace
) -> list[rows.Row]:
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, each in times.items():
            shard = options.shard or shard_for(gbit, model, WAYS[way])
            most = most_for(gbit, model)
            arguments = [
                argument.format(model=model, shard=shard, most=most)
                for argument in WAYS[way].arguments
            ]
            start = ddp(bed, options.torch, arguments) if way in _DDP else ours(bed, arguments)
            each.append(measure(start, options.steps) * (2 if WAYS[way].together else 1))
            print(
                f"{gbit:g} Gbit/s  {model:<10} {way:<32} {each[-1]:7.3f} s",
                file=sys.stderr,
                flush=True,
            )
    bound = MODEL_MB[model] / (gbit * MB_A_GBIT)
    found = [
        rows.Row("wire", f"{model}, {gbit:g} Gbit/s", way, "s/step", each)
        for way, each in times.items()
    ]
    found.append(rows.Row("wire", f"{model}, {gbit:g} Gbit/s", "the wire", "s/step", [bound]))
    print(f"\n{model}, {gbit:g} Gbit/s{'':<{22 - len(model)}} {'s/step':>7}")
    for row in found:
        print(f"{row.way:<32} {row.value:>7.3f}", flush=True)
    return found


def shape(bed: HostBed, gbit: float) -> None:
    """Limits the link of every host at both ends. Whatever this machine's own default is,
    connections share a link as most hosts' do: bbr lets one of two workers have most of it for a
    tenth of a second and longer."""
    for index, host in enumerate(bed.hosts):
        assert host.network is not None
        limit = [
            "root",
            "tbf",
            "rate",
            f"{gbit}gbit",
            "burst",
            f"{max(256, round(256 * gbit))}kb",
            "latency",
            "50ms",
        ]
        subprocess.run(
            ["tc", "qdisc", "add", "dev", f"{host.network.bridge}-{index + 1}", *limit], check=True
        )
        subprocess.run(host.command("tc", "qdisc", "add", "dev", "eth0", *limit), check=True)
        shown = subprocess.run(
            host.command("ip", "route", "show", "dev", "eth0"),
            check=True,
            capture_output=True,
            text=True,
        )
        for route in shown.stdout.splitlines():
            subprocess.run(
                host.command(
                    "ip",
                    "route",
                    "change",
                    *route.split(),
                    "dev",
                    "eth0",
                    "congctl",
                    CONGESTION_CONTROL,
                ),
                check=True,
            )


# Runs a way until it is left; yields when its first worker has said which step.
Start = Callable[[], AbstractContextManager[Iterator[tuple[float, int]]]]


def measure(start: Start, steps: int) -> float:
    """Seconds between two steps that the first worker says."""
    with start() as said:
        first = next((now, step) for now, step in said if step > WARM_STEPS)
        last = next(
            (now, step)
            for now, step in said
            if step >= first[1] + steps and now >= first[0] + LEAST_S
        )
    return (last[0] - first[0]) / (last[1] - first[1])


def shard_for(gbit: float, model: str, way: Way) -> str:
    """What the docs advise, and `psclust plan`."""
    narrow = any("wire_dtype" in argument for argument in way.arguments)
    if model in ADVISED_KIB:
        return f"{ADVISED_KIB[model]}KiB" if gbit <= 1 and not narrow else "64MB"
    if gbit > 1:
        return "8MB" if narrow else "2MB"
    if narrow:
        return "2MB" if QUARTER[1] in way.arguments else "1MB"
    return "256KB"


def most_for(gbit: float, model: str) -> int:
    """The bytes of a rival's shards, at most."""
    return (
        min(8_000_000, ADVISED_KIB[model] << 10)
        if model in ADVISED_KIB and gbit <= 1
        else 8_000_000
    )


def ours(bed: HostBed, arguments: Sequence[str]) -> Start:
    @contextmanager
    def start() -> Iterator[Iterator[tuple[float, int]]]:
        with tempfile.TemporaryDirectory() as state:
            environ = {
                **os.environ,
                "HOME": str(bed.home),
                "PSCLUST_STATE": state,
                "TF_CPP_MIN_LOG_LEVEL": "3",
            }
            command = [
                sys.executable,
                "-m",
                "psclust",
                "up",
                "-H",
                bed.names,
                "--name",
                "bench",
                "--ps",
                "2",
                "--workers",
                "2",
            ]
            for name, value in ONE_THREAD.items():
                command += ["--env", f"{name}={value}"]
            command += arguments
            up = _popen(command, bed.shared / "training", environ)
            try:
                yield said_steps(up)
            finally:
                up.send_signal(signal.SIGINT)
                up.communicate()

    return start


def ddp(bed: HostBed, python: str, more: Sequence[str]) -> Start:
    """On the third and the fourth host, where the workers of the other ways are."""
    workers = bed.hosts[2:]
    master = f"{workers[0].address}:29400"

    @contextmanager
    def start() -> Iterator[Iterator[tuple[float, int]]]:
        script = str(bed.shared / "training" / "ddp.py")
        arguments = [script, "--master", master, "--world", "2", *more, "--rank"]
        environ = {**os.environ, **ONE_THREAD, "GLOO_SOCKET_IFNAME": "eth0"}
        processes = [
            _popen(host.command(python, *arguments, str(rank)), bed.shared / "training", environ)
            for rank, host in enumerate(workers)
        ]
        try:
            yield said_steps(processes[0])
        finally:
            for each in (process for host in workers for process in host.processes()):
                with suppress(psutil.Error):
                    if script in each.cmdline():
                        each.kill()
            for process in processes:
                process.communicate()

    return start


def _popen(
    command: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said_steps(process: subprocess.Popen[str]) -> Iterator[tuple[float, int]]:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if found := _STEP.match(line):
            yield time.monotonic(), int(found[2])
    sys.exit("the training ended too soon:\n" + "".join(said))


if __name__ == "__main__":
    main()
