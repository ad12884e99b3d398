"""No process of a training grows with the steps that it makes: tasks, supervisor, agents and all
others.

Trains each kind for two minutes, or for PSCLUST_SOAK_MINUTES:

    PSCLUST_SOAK_MINUTES=60 python -m pytest -s tests/launch/test_soak.py

The first fifth is a warm-up. Growth is the slope of a line through a process's memory over the
steps, fitted by least squares; descriptors and threads may not be more at any time than MORE beyond
those at the end of the warm-up."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import psutil
import pytest

from beds.command import CommandBed, Running
from beds.hosts import HostBed
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow, pytest.mark.long]

MINUTES = float(os.environ.get("PSCLUST_SOAK_MINUTES", "2"))
EVERY_S = 1.0
MOST_BYTES_A_STEP = 20
# Workers gain 3 to 5 MB in their first 150,000 steps; perhaps the ids of the last 100,000 requests,
# which TensorFlow keeps. Threads' heaps come and go.
NOISE_BYTES = 12e6
MORE = 8  # a connection or a thread that comes and goes, for a log, a look at the status, a save

KINDS = {
    "between-graph async": ("between-graph", "async", "{}"),
    "between-graph sync": ("between-graph", "sync", "{}"),
    "streamed sync": ("between-graph", "sync", "{max_shard_bytes: 128KB}"),
    "in-graph": ("in-graph", "sync", "{}"),
}
PROGRAM = """
import tensorflow as tf
import psclust

def data():
    x = tf.random.stateless_normal([32, 784], [1, 2])
    y = tf.random.stateless_uniform([32], [3, 4], 0, 10, tf.int64)
    return tf.data.Dataset.from_tensors((x, y)).repeat()

def model(features, labels, mode):
    get = tf.compat.v1.get_variable
    x = tf.nn.relu(features @ get("first", [784, 128]) + get("bias", [128]))
    logits = x @ get("second", [128, 10])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(loss))

program = psclust.Program(
    model,
    data,
    lambda: tf.compat.v1.train.GradientDescentOptimizer(1e-4),
    config=psclust.TrainConfig(save_seconds=None),
)
"""


@dataclass(frozen=True)
class Look:
    """A process at one time. step: of the training."""

    step: int
    bytes: int
    descriptors: int
    threads: int


class Soak:
    """A training under way. seen: by process, since the warm-up."""

    def __init__(
        self, bed: CommandBed, running: Running, processes: Callable[[], Iterable[psutil.Process]]
    ) -> None:
        self._bed, self._running, self._processes = bed, running, processes
        self.seen: dict[str, list[Look]] = {}

    def run(self, minutes: float) -> None:
        wait_until(lambda: self._step() > 0, what="the first step")
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < minutes * 60:
            time.sleep(EVERY_S)  # what is measured is what they do meanwhile
            assert self._running.process.poll() is None, self._running.output
            if elapsed > minutes * 60 / 5:
                self._look()
        last = max(looks[-1].step for looks in self.seen.values())
        self.seen = {name: looks for name, looks in self.seen.items() if looks[-1].step == last}

    def _step(self) -> int:
        steps = [0]
        for file in self._bed.run_folder().path.glob("progress/*.json"):
            with suppress(ValueError, KeyError):  # one that has not begun
                steps.append(int(json.loads(file.read_text())["step"]))
        return max(steps)

    def _look(self) -> None:
        step = self._step()
        for process in self._processes():
            with suppress(psutil.Error):
                name = f"{process.pid} {' '.join(process.cmdline())[-60:]}"
                used, threads = process.memory_info().rss, process.num_threads()
                self.seen.setdefault(name, []).append(Look(step, used, process.num_fds(), threads))

    def growth(self) -> tuple[list[str], list[str]]:
        """A line for each process, and the lines of those that grew."""
        said, grown = [], []
        for name, looks in sorted(self.seen.items()):
            steps = np.array([look.step for look in looks], float)
            slope = float(np.polyfit(steps - steps[0], [look.bytes for look in looks], 1)[0])
            total = slope * float(steps[-1] - steps[0])
            megabytes = [look.bytes >> 20 for look in looks[:: max(1, len(looks) // 8)]]
            counts = [
                (getattr(looks[0], kind), max(getattr(look, kind) for look in looks))
                for kind in ("descriptors", "threads")
            ]
            said.append(
                f"{name}: {slope:.1f} bytes a step, {total / 1e6:.1f} MB; MB: {megabytes}; "
                f"descriptors and threads, first and most: {counts}"
            )
            if (slope > MOST_BYTES_A_STEP and total > NOISE_BYTES) or any(
                most > first + MORE for first, most in counts
            ):
                grown.append(said[-1])
        return said, grown


def _soak(
    bed: CommandBed, kind: str, processes: Callable[[], Iterable[psutil.Process]], *arguments: str
) -> None:
    replication, update, placement = KINDS[kind]
    bed.write("soaked.py", PROGRAM)
    bed.write(
        "psclust.yaml",
        "jobs: {ps: 2, worker: 2}\n"
        "program: soaked:program\n"
        f"replication: {replication}\n"
        f"update: {update}\n"
        f"placement: {placement}\n",
    )
    running = bed.start("up", *arguments)
    soak = Soak(bed, running, processes)
    try:
        soak.run(MINUTES)
    finally:
        running.interrupt()
        running.wait()
    said, grown = soak.growth()
    steps = next(iter(soak.seen.values()))
    print(f"{kind}: {steps[-1].step - steps[0].step} steps after the warm-up", *said, sep="\n")
    assert not grown, "\n".join(said)


@pytest.mark.parametrize("kind", KINDS)
def test_no_process_grows_with_its_steps(bed: CommandBed, kind: str) -> None:
    _soak(bed, kind, bed.processes)


def test_no_process_grows_on_hosts(far: CommandBed, hosts: HostBed) -> None:
    def processes() -> list[psutil.Process]:
        return [*far.processes(), *(one for host in hosts.hosts for one in host.processes())]

    _soak(far, "streamed sync", processes, "-H", hosts.names)
