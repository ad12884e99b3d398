"""Keras layers in graphs: the silent ones are named, the old ones work."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import toys
from trained import read_checkpoint
from ways import Train

import psclust
from beds.tiers import longer

pytestmark = pytest.mark.tensorflow


def test_batch_normalisation_of_keras_3_is_named(
    train_here: Train, caplog: pytest.LogCaptureFixture
) -> None:
    def loss(features: Any) -> Any:
        x = tf.keras.layers.BatchNormalization(name="silent")(features, training=True)
        return tf.reduce_mean(psclust.batch_normalization(x, True, name="own") ** 2)

    with caplog.at_level(logging.WARNING):
        train_here(toys.repeated(loss, np.ones([2, 1], np.float32), 2))
    said = [message for message in caplog.messages if "moving statistics" in message]
    assert [message.partition(":")[0] for message in said] == ["silent"]


def test_a_penalty_that_is_not_in_the_loss_is_named(
    train_here: Train, caplog: pytest.LogCaptureFixture
) -> None:
    def loss(features: Any) -> Any:
        penalty = tf.keras.regularizers.L2(0.1)
        return tf.reduce_mean(tf.compat.v1.get_variable("weight", [3], regularizer=penalty))

    with caplog.at_level(logging.WARNING):
        train_here(toys.repeated(loss, 1.0, 2))
    assert "1 regularization losses that its loss does not contain" in caplog.text


@pytest.mark.process
def test_layers_of_tensorflow_1_train_and_keep_their_statistics_with_tf_keras(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    words = ["-m", "psclust.train", "legacy:program", "--model-dir", str(tmp_path)]
    captured: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(
        [sys.executable, *words], cwd=Path(__file__).parent, env=environment, **captured
    )
    assert done.returncode == 0, done.stderr
    assert "moving statistics" not in done.stdout
    mean = read_checkpoint(tmp_path).values["batch_normalization/moving_mean"]
    assert mean[0] == pytest.approx(2.0)


@pytest.mark.parametrize("replication", [None, "in-graph", "between-graph"])
@pytest.mark.parametrize("variables", ["keras", "plain"])
def test_variables_not_made_by_get_variable_are_evaluated_from_the_checkpoint(
    train_here: Train, replication: str | None, variables: str
) -> None:
    def model(features: Any, mode: str) -> psclust.EstimatorSpec:
        x = tf.cast(features[:, None], tf.float32)
        y = (
            tf.keras.layers.Dense(1)(tf.keras.layers.Dense(2)(x))
            if variables == "keras"
            else tf.Variable(1.0, name="scale") * x
        )
        return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(y**2))

    def batches(mode: str) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.constant([1, 2])).repeat(3)

    program = psclust.Program(
        model, batches, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.01)
    )
    trained = train_here(program, replication, workers=1)
    names = {name for name in trained.values if "psclust" not in name} - {"global_step"}
    dense = {"dense/bias", "dense/kernel", "dense_1/bias", "dense_1/kernel"}
    assert names == (dense if variables == "keras" else {"scale"})
    assert program.evaluate(trained.model_dir).step == 3


_OF_KERAS = r"model_fn failed in mode 'train' at bad_layers\.py:\d+ \(model_fn\): .*5, ?2.*"
_OWN = r"model_fn failed .* at bad_layers\.py:\d+ \(call\): Dimensions must be equal.*"
_REFUSES = r"(?s)Traceback.*not this input.*"


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "legacy", "exit_code", "says"),
    [
        ("own", "1", 2, _OWN),
        *longer(
            ("own", "0", 2, _OWN),
            ("keras", "0", 2, _OF_KERAS),
            ("keras", "1", 2, _OF_KERAS),
            ("refuses", "0", 1, _REFUSES),
            ("refuses", "1", 1, _REFUSES),
        ),
    ],
)
def test_a_mistake_in_a_layer_is_one_sentence_with_its_cause(
    program: str, legacy: str, exit_code: int, says: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "psclust.train", f"bad_layers:{program}"],
        cwd=Path(__file__).parent,
        env={**os.environ, "TF_USE_LEGACY_KERAS": legacy, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == exit_code, done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith(("WARNING", "E0000"))]
    assert re.fullmatch(says, "\n".join(said)), done.stderr
