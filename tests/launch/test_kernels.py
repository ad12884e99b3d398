"""psclust's own kernels where all tasks of a training have them, else TensorFlow's ops, and said
so."""

from __future__ import annotations

import re

import pytest

from beds.command import CommandBed
from beds.tiers import longer
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

PROGRAM = """
import time

import psclust
import tensorflow.compat.v1 as tf

class Ops(tf.train.SessionRunHook):
    def begin(self):
        types = {op.type for op in tf.get_default_graph().get_operations()}
        used = sorted(name for name in types if name.startswith("Psclust"))
        print("kernels:", *used, flush=True)

    def after_run(self, context, values):
        time.sleep(0.05)  # leaves the processors to others

def model(features):
    initial = tf.glorot_uniform_initializer(seed=1)
    weights = tf.get_variable("weights", [200, 2001], initializer=initial)
    loss = tf.reduce_mean(tf.tanh(tf.matmul(features, weights)) ** 2)
    return psclust.EstimatorSpec("train", loss=loss, training_hooks=[Ops()])

def data():
    return tf.data.Dataset.from_tensors(tf.ones([8, 200])).repeat(10)

config = psclust.TrainConfig(wire_dtype="int8")
program = psclust.Program(model, data, lambda: tf.train.AdamOptimizer(0.01), config=config)
"""
INT8 = "PsclustDecode PsclustEncode"
WIRE = {"PsclustConnect", "PsclustListen", "PsclustReceive", "PsclustSend"}
WITHOUT = "env: {PSCLUST_KERNELS: 0}"
WITHOUT_IF = """
import os
if os.path.exists("without"):
    os.environ["PSCLUST_KERNELS"] = "0"
"""


@pytest.mark.parametrize(
    ("replication", "update", "wire_dtype", "ps", "worker", "used", "lacking"),
    [
        ("between-graph", "sync", "float32", "", "", "", ""),
        *longer(
            ("between-graph", "sync", "int8", WITHOUT, "", "", "ps:"),
            ("between-graph", "async", "int8", "server: python", "", INT8, ""),
            ("in-graph", "sync", "int8", "", WITHOUT, "", "worker:"),
            ("between-graph", "async", "int8", "", "", INT8, ""),
            ("between-graph", "sync", "int8", "", "", INT8, ""),
            ("in-graph", "sync", "int8", "", "", INT8, ""),
            ("in-graph", "sync", "float32", "", "", "", ""),
            ("between-graph", "async", "int8", WITHOUT, "", "", "ps:"),
            ("between-graph", "sync", "float32", WITHOUT, "", "", "ps:"),
            ("in-graph", "sync", "float32", WITHOUT, "", "", "ps:"),
            ("between-graph", "async", "int8", "", WITHOUT, "", "worker:0"),
            ("between-graph", "async", "int8", f"server: python, {WITHOUT}", "", "", "ps:"),
        ),
    ],
)
def test_they_are_used_where_all_tasks_have_them(
    bed: CommandBed,
    replication: str,
    update: str,
    wire_dtype: str,
    ps: str,
    worker: str,
    used: str,
    lacking: str,
) -> None:
    bed.write("mine.py", PROGRAM.replace("int8", wire_dtype))
    jobs = f"jobs:\n  ps: {{count: 2, {ps}}}\n  worker: {{count: 2, {worker}}}"
    bed.write(
        "cluster.yaml",
        f"{jobs}\nreplication: {replication}\nupdate: {update}\nprogram: mine:program\n"
        "placement: {max_shard_bytes: none}\n",
    )
    said = bed.done("up", "-f", "cluster.yaml")
    built = dict(re.findall(r"^(\S+) +\| kernels:(.*)", said, re.MULTILINE))
    # Of the chief, whose graph has the update; where a task lacks them, of the graph that was built
    # again.
    found = set(built["client:0" if replication == "in-graph" else "worker:0"].split())
    assert found == set(used.split()) | (set() if lacking else WIRE), said
    assert ("kernels are missing" in said) == bool(lacking), said
    if lacking:
        assert f"kernels are missing on {lacking}" in said


@pytest.mark.long
@pytest.mark.parametrize(
    ("replication", "update", "clients"),
    [
        ("between-graph", "async", ["worker:0", "worker:1"]),
        ("between-graph", "sync", ["worker:0"]),
        ("in-graph", "async", ["client:0"]),
    ],
)
def test_training_goes_on_with_a_ps_that_comes_back_without_them(
    bed: CommandBed, replication: str, update: str, clients: list[str]
) -> None:
    bed.write("mine.py", PROGRAM.replace("repeat(10)", "repeat()"))
    bed.write("sitecustomize.py", WITHOUT_IF)
    # Not forked, so that each attempt of a ps looks for the file.
    jobs = f"{{ps: {{count: 2, env: {{PYTHONPATH: {bed.folder}}}}}, worker: 2}}"
    bed.write(
        "cluster.yaml",
        f"name: {bed.name}\nreplication: {replication}\nupdate: {update}\n"
        f"program: mine:program\npreload: false\njobs: {jobs}\n",
    )

    def steps(client: str, first: str) -> bool:
        _, built, after = bed.log(client).rpartition(first)
        return bool(built) and "step " in after

    bed.done("up", "-d", "-f", "cluster.yaml")
    wait_until(lambda: all(steps(client, "kernels: Psclust") for client in clients), what="a step")
    bed.write("without", "")
    for ps in ("ps:0", "ps:1"):
        bed.done("restart", ps)
    wait_until(
        lambda: all(steps(client, "kernels:\n") for client in clients),
        what="a step without kernels",
    )
    for client in clients:
        assert bed.log(client).count("psclust's kernels are missing on ps:") == 1
        assert bed.wait_for(client, "running").attempt == 1
    bed.done("down", bed.name)
