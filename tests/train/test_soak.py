"""No process of a training grows with the steps that it makes.

Trains each kind for two minutes, or for PSCLUST_SOAK_MINUTES:

    PSCLUST_SOAK_MINUTES=60 python -m pytest -s tests/train/test_soak.py

The first fifth is a warm-up. Growth is the slope of a line through a process's memory over the
steps, fitted by least squares."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

import numpy as np
import psutil
import pytest

from beds.command import CommandBed, Running
from psclust.rundir.status import RunStatus
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow, pytest.mark.long]

MINUTES = float(os.environ.get("PSCLUST_SOAK_MINUTES", "2"))
EVERY_S = 1.0
MOST_BYTES_A_STEP = 20
# Workers gain 3 to 5 MB in their first 150,000 steps; perhaps the ids of the last 100,000 requests,
# which TensorFlow keeps. Threads' heaps come and go.
NOISE_BYTES = 12e6

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


class Soak:
    """A training under way. memory: by process, (step, bytes) after the warm-up."""

    def __init__(self, bed: CommandBed, running: Running) -> None:
        self._bed, self._running = bed, running
        self.memory: dict[str, list[tuple[int, int]]] = {}
        self._pids: dict[str, int] = {}

    def run(self, minutes: float) -> None:
        wait_until(lambda: self._step() > 0, what="the first step")
        status = self._bed.status()
        assert status is not None
        self._pids = _pids(status)
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < minutes * 60:
            time.sleep(EVERY_S)  # what is measured is what they do meanwhile
            assert self._running.process.poll() is None, self._running.output
            if elapsed > minutes * 60 / 5:
                self._look()

    def _step(self) -> int:
        steps = [0]
        for file in self._bed.run_folder().path.glob("progress/*.json"):
            with suppress(ValueError, KeyError):  # one that has not begun
                steps.append(int(json.loads(file.read_text())["step"]))
        return max(steps)

    def _look(self) -> None:
        step = self._step()
        for name, pid in self._pids.items():
            used = psutil.Process(pid).memory_info().rss
            self.memory.setdefault(name, []).append((step, used))

    def growth(self) -> dict[str, tuple[float, float]]:
        """By process: bytes a step, and bytes over all of them."""
        found = {}
        for name, points in self.memory.items():
            steps, used = np.array(points, float).T
            slope = float(np.polyfit(steps - steps[0], used, 1)[0])
            found[name] = slope, slope * float(steps[-1] - steps[0])
        return found


def _pids(status: RunStatus) -> dict[str, int]:
    tasks = {task.task: task.pid for task in status.tasks if task.pid is not None}
    return {"supervisor": status.supervisor, **tasks}


@pytest.mark.parametrize("kind", KINDS)
def test_no_process_grows_with_its_steps(bed: CommandBed, kind: str) -> None:
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
    running = bed.start("up")
    soak = Soak(bed, running)
    try:
        soak.run(MINUTES)
    finally:
        running.interrupt()
        running.wait()
    growth = soak.growth()
    steps = next(iter(soak.memory.values()))
    said = [f"{kind}: {steps[-1][0] - steps[0][0]} steps after the warm-up"]
    for name, (slope, total) in growth.items():
        megabytes = [used >> 20 for _, used in soak.memory[name][:: max(1, len(steps) // 8)]]
        said.append(f"{name}: {slope:.1f} bytes a step, {total / 1e6:.1f} MB; MB: {megabytes}")
    print("\n".join(said))
    grown = {
        name: slope
        for name, (slope, total) in growth.items()
        if slope > MOST_BYTES_A_STEP and total > NOISE_BYTES
    }
    assert not grown, "\n".join(said)
