"""What it costs that parts of the data are handed out (`input: handed_out`).

    python benchmarks/handing_out.py [--rounds 3] [--parts 10000] [--claimers 64] [--seconds 5]

First a ps alone: `--claimers` threads of one process, each as a worker, claim one part after
another and finish it, for `--seconds`. A part costs a claim and a finish, whatever its size, so
beside them stands how busy they keep that ps if each worker needs a part a second. Then trainings:
two workers and one ps make steps of the small model of `training/models.py` whose data is handed
out in parts of 50 batches, against the same program with `input: sharded`; the two take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import rows
import runs

WAYS = ("async", "sync")
INPUTS = ("sharded", "handed_out")
PART_S = 1.0
WARM_S = 3.0


def main() -> None:
    parser = runs.parser(__doc__)
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--claimers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    found = []
    pairs = [
        claims(options.parts, options.claimers, options.seconds) for _ in range(options.rounds)
    ]
    case = f"{options.parts} parts, {options.claimers} claimers"
    rates, cpu = ([pair[place] for pair in pairs] for place in (0, 1))
    found.append(rows.Row("handing_out", case, "a ps alone", "parts/s", rates))
    found.append(rows.Row("handing_out", case, "a ps alone", "ms of CPU a part", cpu))
    busy = options.claimers / PART_S * statistics.median(cpu) / 1e3
    print(f"{case}: {statistics.median(rates):.0f} parts a second are claimed and finished,")
    print(f"{statistics.median(cpu):.2f} ms of CPU of the ps for each; with a part every")
    print(f"{PART_S:g} s for each claimer, {busy:.1%} of a core", flush=True)
    for way in WAYS:
        seconds: dict[str, list[float]] = {name: [] for name in INPUTS}
        for _ in range(options.rounds):
            for name in INPUTS:
                seconds[name].append(step_s(way, name, options.seconds))
        found += [rows.Row("handing_out", way, name, "s/step", seconds[name]) for name in INPUTS]
        ratio = statistics.median(
            a / b for a, b in zip(seconds["handed_out"], seconds["sharded"], strict=True)
        )
        medians = ", ".join(
            f"{name} {statistics.median(seconds[name]) * 1e3:.2f} ms" for name in INPUTS
        )
        print(f"{way}: {medians} a step; {ratio:.3f} times as long", flush=True)
    rows.write(options.json, found)


def claims(parts: int, claimers: int, seconds: float) -> tuple[float, float]:
    """Parts that are claimed and finished a second, on a ps of `psclust up`, and the milliseconds
    of its CPU for each."""
    with tempfile.TemporaryDirectory() as state:
        subprocess.run(
            [*runs.PSCLUST, "up", "-d", "--run-dir", state, "--name", "bench", "--ps", "1"],
            check=True,
            capture_output=True,
        )
        try:
            status = next(Path(state).glob("bench/*/status.json")).read_text(encoding="utf-8")
            ps = next(task for task in json.loads(status)["tasks"] if task["task"] == "ps:0")
            return _claimed(ps, parts, claimers, seconds)
        finally:
            subprocess.run(
                [*runs.PSCLUST, "down", "--run-dir", state, "bench"],
                check=False,
                capture_output=True,
            )


def _claimed(
    ps: Mapping[str, Any], parts: int, claimers: int, seconds: float
) -> tuple[float, float]:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    from psclust.replication.parts.dispenser import create_dispenser, dispenser_ops
    from psclust.replication.parts.part_list import PartList, ranges

    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            dispenser = create_dispenser(PartList(ranges(parts, 1), epochs=None))
        ops = dispenser_ops(dispenser, "/job:ps/task:0")
        start = tf.compat.v1.global_variables_initializer()
    session = tf.compat.v1.Session(f"grpc://{ps['address']}", graph=graph)
    session.run(start)
    counts, over = [0] * claimers, threading.Event()

    def work(number: int) -> None:
        me = number + 1
        session.run(ops.join, {ops.slot: number, ops.me: me})
        while not over.is_set():
            found, _ = session.run(ops.claim, {ops.me: me, ops.most: 1})
            session.run(ops.finish, {ops.parts: found[:, 0], ops.me: me})
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(claimers)]
    for thread in threads:
        thread.start()
    while not all(counts):  # the first run of each op takes longer
        time.sleep(0.05)
    server = [psutil.Process(ps["pid"])]
    before, began, used = sum(counts), time.monotonic(), runs.cpu(server)
    time.sleep(seconds)
    made, took = sum(counts) - before, time.monotonic() - began
    used = runs.cpu(server) - used
    over.set()
    for thread in threads:
        thread.join()
    session.close()
    return made / took, used / made * 1e3


def step_s(way: str, name: str, seconds: float) -> float:
    """Seconds of a step of one worker."""
    with tempfile.TemporaryDirectory() as state:
        path = os.pathsep.join([str(runs.TRAINING), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
        more = ("--input", name, f"--{way}", "parts:small", "--log-seconds", "0.25")
        with runs.training(runs.up(state, 1, 2, *more), runs.TRAINING, environ) as lines:
            now, first = next(lines)
            warm = now + WARM_S
            while now < warm:
                now, first = next(lines)
            began, last = now, first
            while now < began + seconds:
                now, last = next(lines)
    # An asynchronous step of one worker is an update in two.
    return (now - began) / (last - first) * (2 if way == "async" else 1)


if __name__ == "__main__":
    sys.exit(main())
