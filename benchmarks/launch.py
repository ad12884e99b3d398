"""How soon N TensorFlow servers accept connections, and what they cost: `psclust up` against N
`python` processes with `tf.train.Server`.

    python benchmarks/launch.py [--servers 4 16 64] [--rounds 3]

The two take turns, several rounds each, on an otherwise idle machine. "seconds" runs from the start
of the command until the last of the N ports accepts (the median of the rounds). "PSS" is the
proportional memory of one server in MB, the mean of all; "besides" is what psclust itself needs on
top, once for the whole cluster: the command, the guard, the supervisor and the fork server. By hand
the ports are chosen beforehand, as people do. "memory" is what the kernel alone takes for as much
memory: N forked processes that write to each of its pages.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import rows
import runs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from beds.free_ports import free_ports

SERVER = """
import json, sys
import tensorflow as tf
tf.distribute.Server(json.loads(sys.argv[1]), job_name="worker", task_index=int(sys.argv[2])).join()
"""


@dataclass(frozen=True)
class Measurement:
    """Seconds until all accept; MB of proportional memory of a server, and of everything besides
    the servers."""

    seconds: float
    pss: float
    besides: float


def main() -> None:
    parser = runs.parser(__doc__)
    parser.add_argument("--servers", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument(
        "--by-hand-up-to",
        type=int,
        default=16,
        help="more than this is not started by hand: it takes minutes",
    )
    options = parser.parse_args()
    found: list[rows.Row] = []
    print(
        f"{'servers':>7}  {'way':<8}  {'seconds':>8}  {'PSS/MB':>7}  {'besides/MB':>10}  "
        f"{'times sooner':>12}"
    )
    for count in options.servers:
        psclust, by_hand, memory_alone = [], [], []
        for _ in range(options.rounds):
            psclust.append(measure_psclust(count))
            memory_alone.append(measure_memory(count, psclust[-1].pss))
            if count <= options.by_hand_up_to:
                by_hand.append(measure_by_hand(count))
        show(count, "psclust", psclust, None)
        if by_hand:
            show(count, "by hand", by_hand, psclust)
        print(f"{count:>7}  {'memory':<8}  {statistics.median(memory_alone):>8.2f}", flush=True)
        for way, rounds in (("psclust", psclust), ("by hand", by_hand)):
            found.append(
                rows.Row("launch", str(count), way, "s", [each.seconds for each in rounds])
            )
            found.append(
                rows.Row("launch", str(count), way, "MB a server", [each.pss for each in rounds])
            )
        found.append(rows.Row("launch", str(count), "memory alone", "s", memory_alone))
    rows.write(options.json, [row for row in found if row.rounds])


def show(
    count: int, way: str, rounds: Sequence[Measurement], against: Sequence[Measurement] | None
) -> None:
    seconds = statistics.median(entry.seconds for entry in rounds)
    pss = statistics.median(entry.pss for entry in rounds)
    ratio = (
        f"{seconds / statistics.median(entry.seconds for entry in against):.1f}" if against else ""
    )
    besides = statistics.median(entry.besides for entry in rounds)
    print(
        f"{count:>7}  {way:<8}  {seconds:>8.2f}  {pss:>7.1f}  {besides:>10.1f}  {ratio:>12}",
        flush=True,
    )


def measure_psclust(count: int) -> Measurement:
    base = free_ports(count)
    with tempfile.TemporaryDirectory() as state:
        command = runs.up(state, 0, count, "--ports", str(base))
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            seconds = until_all_accept(range(base, base + count), began)
            status = until_all_run(Path(state) / "bench" / "current" / "status.json", count)
            guard = psutil.Process(psutil.Process(status["supervisor"]).ppid())
            everything = {
                process.pid,
                guard.pid,
                *(child.pid for child in guard.children(recursive=True)),
            }
            servers = {task["pid"] for task in status["tasks"]}
            pss, besides = memory(servers), memory(everything - servers)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
    return Measurement(seconds, pss / count, besides)


def measure_by_hand(count: int) -> Measurement:
    base = free_ports(count)
    cluster = json.dumps({"worker": [f"127.0.0.1:{base + index}" for index in range(count)]})
    began = time.monotonic()
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SERVER, cluster, str(index)],
            env=environ,
            stderr=subprocess.DEVNULL,
        )
        for index in range(count)
    ]
    try:
        seconds = until_all_accept(range(base, base + count), began)
        pss = memory([process.pid for process in processes])
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return Measurement(seconds, pss / count, 0)


def measure_memory(count: int, megabytes: float) -> float:
    """Seconds until `count` forked processes have written to each page of so much memory, and still
    have it."""
    written, tell = os.pipe()
    began = time.monotonic()
    pids = []
    for _ in range(count):
        pids.append(os.fork())
        if pids[-1] == 0:
            own = mmap.mmap(-1, int(megabytes * 2**20), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for page in range(0, len(own), mmap.PAGESIZE):
                own[page] = 1
            os.write(tell, b".")
            signal.pause()
    os.close(tell)
    for _ in pids:
        if not os.read(written, 1):
            sys.exit(f"not all of {count} processes got {megabytes:.0f} MB")
    seconds = time.monotonic() - began
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os.close(written)
    return seconds


def until_all_accept(ports: Sequence[int], began: float) -> float:
    waiting = list(ports)
    while waiting:
        try:
            socket.create_connection(("127.0.0.1", waiting[0]), timeout=1).close()
            waiting.pop(0)
        except OSError:
            time.sleep(0.005)
        if time.monotonic() - began > 300:
            sys.exit(f"{len(waiting)} of {len(ports)} servers do not accept after 300 s")
    return time.monotonic() - began


def until_all_run(path: Path, count: int) -> dict[str, Any]:
    """The run's status, once it names the pids of all servers (a moment after the last one
    accepts)."""
    while True:
        status: dict[str, Any] = json.loads(path.read_text())
        if len([task for task in status["tasks"] if task["pid"]]) == count:
            return status
        time.sleep(0.01)


def memory(pids: Iterable[int]) -> float:
    """Proportional set size of some processes together, in MB."""
    kilobytes = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                kilobytes += int(line.split()[1])
    return kilobytes / 1024


if __name__ == "__main__":
    main()
