"""int8 by psclust's own kernels where all tasks of a training have them, else by TensorFlow's ops, and said so."""

from __future__ import annotations

import pytest

from psclust.testing.command import CommandBed
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

PROGRAM = """
import psclust
import tensorflow.compat.v1 as tf

class Ops(tf.train.SessionRunHook):
    def begin(self):
        used = sorted({op.type for op in tf.get_default_graph().get_operations() if op.type.startswith("Psclust")})
        print("kernels:", *used, flush=True)

def model(features):
    weights = tf.get_variable("weights", [200, 101], initializer=tf.glorot_uniform_initializer(seed=1))
    loss = tf.reduce_mean(tf.tanh(tf.matmul(features, weights)) ** 2)
    return psclust.EstimatorSpec("train", loss=loss, training_hooks=[Ops()])

def data():
    return tf.data.Dataset.from_tensors(tf.ones([8, 200])).repeat(10)

program = psclust.Program(model, data, lambda: tf.train.AdamOptimizer(0.01), config=psclust.TrainConfig(wire_dtype="int8"))
"""
USED = "kernels: PsclustDecode PsclustDecodeAdd PsclustEncode\n"
WITHOUT = "env: {PSCLUST_WIRE_KERNELS: 0}"


@pytest.mark.parametrize(
    ("replication", "ps", "worker", "lacking"),
    [
        ("between-graph", "", "", None),
        ("in-graph", "", "", None),
        ("between-graph", "server: python", "", None),
        ("between-graph", WITHOUT, "", "ps:0, ps:1"),
        ("in-graph", "", WITHOUT, "worker:0, worker:1"),
        pytest.param("between-graph", "", WITHOUT, "worker:0", marks=pytest.mark.long),
        pytest.param("between-graph", f"server: python, {WITHOUT}", "", "ps:0, ps:1", marks=pytest.mark.long),
    ],
)
def test_they_are_used_where_all_tasks_have_them(bed: CommandBed, replication: str, ps: str, worker: str, lacking: str | None) -> None:
    bed.write("mine.py", PROGRAM)
    bed.write(
        "cluster.yaml",
        f"jobs:\n  ps: {{count: 2, {ps}}}\n  worker: {{count: 2, {worker}}}\nreplication: {replication}\nprogram: mine:program\n",
    )
    code, said = bed.run("up", "-f", "cluster.yaml")
    assert code == 0, said
    assert (USED in said) == (lacking is None), said
    assert ("kernels are missing" in said) == (lacking is not None), said
    if lacking is not None:
        assert f"kernels are missing on {lacking}. Install gcc" in said


@pytest.mark.parametrize(
    ("replication", "clients"),
    [("between-graph", ["worker:0", "worker:1"]), pytest.param("in-graph", ["client:0"], marks=pytest.mark.long)],
)
def test_training_goes_on_with_a_ps_that_comes_back_without_them(bed: CommandBed, replication: str, clients: list[str]) -> None:
    bed.write("mine.py", PROGRAM.replace("repeat(10)", "repeat()"))

    def up(ps: str) -> None:
        jobs = f"jobs: {{ps: {{count: 2, {ps}}}, worker: 2}}"
        bed.write("cluster.yaml", f"name: {bed.name}\nreplication: {replication}\nprogram: mine:program\n{jobs}\n")
        code, output = bed.run("up", "-d", "-f", "cluster.yaml")
        assert code == 0, output

    def steps(client: str, first: str) -> bool:
        _, built, after = bed.log(client).rpartition(first)
        return bool(built) and "step " in after

    up("")
    wait_until(lambda: all(steps(client, USED) for client in clients), what="a step")
    up(WITHOUT)
    wait_until(lambda: all(steps(client, "kernels:\n") for client in clients), what="a step without kernels")
    for client in clients:
        assert bed.log(client).count("has come back without psclust's kernels") == 1
        task = bed.task(client)
        assert task is not None
        assert task.attempt == 1
    assert bed.run("down", bed.name)[0] == 0
