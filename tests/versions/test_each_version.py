"""What only the matrix of versions asks (`matrix.py`): scripts that some versions of TensorFlow run
and others do not, all ways to train with and without kernels, and a checkpoint of another
version."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import tensorflow as tf

from beds.command import CommandBed
from beds.learning import DIGITS, is_learned
from beds.scripts import TOLD_BY_TF_CONFIG
from psclust.runtime.kernel_library import has_wire, python_ops

pytestmark = [
    pytest.mark.process,
    pytest.mark.tensorflow,
    pytest.mark.long,
    pytest.mark.versions,
]

KINDS = [
    f"{kind} {update}" for kind in ("between-graph", "in-graph") for update in ("async", "sync")
]
OLD_ESTIMATOR = Path(__file__).parents[1] / "train" / "old_estimator.py"
HAS_ESTIMATOR = hasattr(tf, "estimator")

ESTIMATOR_SCRIPT = """
import tensorflow as tf
import old_estimator

config = tf.estimator.RunConfig(model_dir="model", save_checkpoints_secs=5)
estimator = tf.estimator.Estimator(
    old_estimator.model_fn, config=config, params={"rate": 0.05, "counts": True}
)
train = tf.estimator.TrainSpec(lambda: old_estimator.input_fn("train"), max_steps=60)
evaluate = tf.estimator.EvalSpec(lambda: old_estimator.input_fn("eval"), steps=4)
tf.estimator.train_and_evaluate(estimator, train, evaluate)
"""

ESTIMATOR_PROGRAM = """
import psclust
import psclust.estimator

psclust.estimator.install()
from old_estimator import input_fn, model_fn

program = psclust.Program(model_fn, input_fn, params={"rate": 0.05, "counts": True})
"""

KERAS_SCRIPT = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    dense = tf.keras.layers.Dense(1)
    dense.build([None, 4])
    optimizer = tf.keras.optimizers.SGD(0.1)
    optimizer.build(dense.trainable_variables)

@tf.function
def step(features):
    def replica(features):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((dense(features) - 1.0) ** 2)
        variables = dense.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    strategy.run(replica, args=(features,))

for _ in range(200):
    coordinator.schedule(step, args=(tf.ones([8, 4]),))
coordinator.join()
off = float(tf.reduce_max(abs(dense(tf.ones([1, 4])) - 1.0)))
print("Keras", 3 if hasattr(tf.keras, "ops") else 2, "trained", off < 1e-2)
"""

NOTEBOOK = """
import psclust
from psclust.examples.digits import program

with psclust.LocalCluster(ps=2, workers=2) as cluster:
    program.train("model", cluster=cluster)
    print("accuracy", program.evaluate("model").metrics["accuracy"])
"""


def test_a_notebooks_client(bed: CommandBed) -> None:
    bed.write("cells.py", NOTEBOOK)
    said = replace(bed, command=(sys.executable,)).done("cells.py")
    found = re.search(r"accuracy (\S+)", said)
    assert found, said
    assert float(found[1]) >= 0.96


def test_a_script_with_tf_config(bed: CommandBed) -> None:
    bed.write("train.py", TOLD_BY_TF_CONFIG)
    said = bed.done("up", "--ps", "2", "--workers", "2", "train.py")
    assert said.count("trained to") == 2


def test_an_estimator_script(bed: CommandBed) -> None:
    if not HAS_ESTIMATOR:
        pytest.skip("this TensorFlow has no Estimator")
    bed.write("old_estimator.py", OLD_ESTIMATOR.read_text(encoding="utf-8"))
    bed.write("train.py", ESTIMATOR_SCRIPT)
    bed.write(
        "cluster.yaml", "jobs: {chief: 1, ps: 1, worker: 1, evaluator: 1}\nprogram: train.py\n"
    )
    bed.done("up", "-f", "cluster.yaml")
    assert (bed.folder / "model" / "checkpoint").exists()


def test_a_model_function_of_an_estimator(bed: CommandBed) -> None:
    bed.write("old_estimator.py", OLD_ESTIMATOR.read_text(encoding="utf-8"))
    bed.write("mine.py", ESTIMATOR_PROGRAM)
    said = bed.done("up", "--ps", "1", "--workers", "2", "mine:program")
    found = re.search(r"evaluation: accuracy (\S+)", said)
    assert found, said
    assert float(found[1]) > 0.9


@pytest.mark.parametrize("keras", [2, 3])
def test_a_keras_coordinator(bed: CommandBed, keras: int) -> None:
    own = 2 if tuple(map(int, tf.__version__.split(".")[:2])) < (2, 16) else 3
    if keras == 3 and own == 2:
        pytest.skip("this TensorFlow has Keras 2")
    if keras == 2 and own == 3 and find_spec("tf_keras") is None:
        pytest.fail("tf_keras is not installed")
    bed.write("train.py", KERAS_SCRIPT)
    legacy = ["--env", "TF_USE_LEGACY_KERAS=1"] if keras != own else []
    said = bed.done("up", "--ps", "2", "--workers", "2", *legacy, "train.py")
    assert f"Keras {keras} trained True" in said


@pytest.mark.parametrize("way", [*KINDS, *(f"{kind}, no kernels" for kind in KINDS)])
def test_a_psclust_program(bed: CommandBed, way: str) -> None:
    kind, _, without = way.partition(", ")
    replication, update = kind.split()
    options = ["--replication", replication, f"--{update}"]
    options += ["--env", "PSCLUST_KERNELS=0"] * bool(without)
    said = bed.done("up", "--ps", "2", "--workers", "2", *options, DIGITS)
    assert is_learned(said), said


def test_own_kernels() -> None:
    assert python_ops() is not None


def test_own_wire() -> None:
    assert has_wire(python_ops())


def test_a_checkpoint_of_another(bed: CommandBed) -> None:
    """Goes on from the step where the version before has stopped."""
    other = os.environ.get("VERSIONS_OTHER_PYTHON", sys.executable)
    how = ["--ps", "2", "--workers", "2", "--python", other]
    train = [DIGITS, "--model-dir", "model", "--max-steps"]
    bed.done("up", *how, *train, "40")
    how[-1] = sys.executable
    said = bed.done("up", *how, *train, "80")
    assert re.search(r"resumed at step 4\d", said), said
