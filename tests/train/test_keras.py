"""Keras layers in graphs: the silent ones are named, the old ones work."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


def test_batch_normalisation_of_keras_3_is_named(
    train_here: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    import tensorflow as tf
    import toys

    import psclust

    def model(features: Any, mode: str) -> psclust.EstimatorSpec:
        x = tf.keras.layers.BatchNormalization(name="silent")(
            tf.cast(features[:, None], tf.float32), training=True
        )
        own = psclust.batch_normalization(x, mode == psclust.ModeKeys.TRAIN, name="own")
        return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(own**2))

    with caplog.at_level(logging.WARNING):
        train_here(
            psclust.Program(
                model, toys._tally_input, toys._sgd, params={**toys.TALLY, "batches": 2}
            )
        )
    assert [
        record.message.partition(":")[0]
        for record in caplog.records
        if "moving statistics" in record.message
    ] == ["silent"]


def test_a_penalty_that_is_not_in_the_loss_is_named(
    train_here: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    import tensorflow as tf
    import toys

    import psclust

    def model(features: Any, mode: str) -> psclust.EstimatorSpec:
        weight = tf.compat.v1.get_variable("weight", [3], regularizer=tf.keras.regularizers.L2(0.1))
        return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(weight))

    with caplog.at_level(logging.WARNING):
        train_here(
            psclust.Program(
                model, toys._tally_input, toys._sgd, params={**toys.TALLY, "batches": 2}
            )
        )
    assert "1 regularization losses that its loss does not contain" in caplog.text


@pytest.mark.process
def test_layers_of_tensorflow_1_train_and_keep_their_statistics_with_tf_keras(
    tmp_path: Path,
) -> None:
    import tensorflow as tf

    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    command = [
        sys.executable,
        "-m",
        "psclust.train",
        "legacy:program",
        "--model-dir",
        str(tmp_path / "model"),
    ]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "moving statistics" not in done.stdout
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    assert float(reader.get_tensor("batch_normalization/moving_mean")[0]) == pytest.approx(2.0)


@pytest.mark.parametrize("replication", [None, "in-graph", "between-graph"])
@pytest.mark.parametrize("variables", ["keras", "plain"])
def test_variables_not_made_by_get_variable_are_evaluated_from_the_checkpoint(
    train_here: Callable[..., Any], replication: str | None, variables: str
) -> None:
    import tensorflow as tf

    import psclust

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
    names = sorted(
        name
        for name, _ in tf.train.list_variables(str(trained.model_dir))
        if "psclust" not in name and name != "global_step"
    )
    assert names == (
        ["dense/bias", "dense/kernel", "dense_1/bias", "dense_1/kernel"]
        if variables == "keras"
        else ["scale"]
    )
    assert program.evaluate(trained.model_dir).step == 3
