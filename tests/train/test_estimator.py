"""Model functions written for `tf.estimator` of TensorFlow 1.15, which ends in a ready train_op."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import old_program
import pytest
import tensorflow as tf
import toys
from ways import Train

import psclust
import psclust.estimator
from psclust.errors import UsageError

pytestmark = pytest.mark.tensorflow


def test_the_old_names_are_where_an_old_model_function_looks_for_them() -> None:
    psclust.estimator.install()
    assert (
        tf.compat.v1.estimator.EstimatorSpec is tf.estimator.EstimatorSpec is psclust.EstimatorSpec
    )
    assert tf.estimator.ModeKeys.PREDICT == "infer"
    spec = tf.estimator.EstimatorSpec("train", loss=1.0)
    assert spec._replace(loss=2.0).loss == 2.0


def test_an_estimator_itself_is_named_with_what_takes_its_place() -> None:
    psclust.estimator.install()
    with pytest.raises(
        AttributeError,
        match=r"^psclust's tf\.estimator has EstimatorSpec, .*, but no "
        r"RunConfig; what an Estimator did is psclust\.Program\(",
    ):
        _ = tf.estimator.RunConfig
    assert not hasattr(tf.estimator, "__wrapped__")


def test_an_old_model_function_trains_evaluates_and_predicts(tmp_path: Path) -> None:
    program = old_program.program
    assert program.train(tmp_path) == 80
    result = program.evaluate(tmp_path)
    assert result.step == 80
    assert result.examples == 64
    assert result.metrics["accuracy"] > 0.9
    predictions = list(program.predict(tmp_path))
    assert len(predictions) == 64
    assert set(predictions[0]) == {"class", "probabilities"}
    assert predictions[0]["probabilities"].shape == (2,)


@pytest.mark.long
def test_the_steps_of_a_train_op_are_counted_once_whether_or_not_it_counts_itself(
    train_here: Train,
) -> None:
    for counts in (True, False):
        program = old_program.program.with_params({"counts": counts})
        trained = train_here(program, "between-graph", workers=2 + counts)
        assert trained.step == trained.values["psclust/positions"].sum() == 80 * (2 + counts)


@pytest.mark.parametrize(
    ("replication", "sync"), [("in-graph", False), ("in-graph", True), ("between-graph", True)]
)
def test_a_train_op_is_refused_where_gradients_are_combined(
    train_here: Train, replication: str, sync: bool
) -> None:
    with pytest.raises(
        UsageError,
        match=r"ready train_op.*without train_op.*optimizer_fn.*between-graph and asynchronous",
    ):
        train_here(old_program.program, replication, sync=sync)


def test_a_program_without_any_optimizer_is_an_error(tmp_path: Path) -> None:
    program = psclust.Program(toys.line.model_fn, toys.line.input_fn, params=toys.LINE)
    with pytest.raises(UsageError, match="neither an optimizer_fn nor a train_op"):
        program.train(tmp_path)


def test_any_class_with_the_same_attributes_is_a_spec(tmp_path: Path) -> None:
    Spec = collections.namedtuple("Spec", ["mode", "loss", "predictions", "eval_metric_ops"])

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        spec = toys.line.model_fn(features, labels, mode, {})
        return Spec(mode, spec.loss, spec.predictions, spec.eval_metric_ops)

    program = psclust.Program(
        model_fn, toys.line.input_fn, toys.line.optimizer_fn, params=toys.LINE
    )
    assert program.train(tmp_path) == 9
    assert program.evaluate(tmp_path).metrics["error"] > 0
