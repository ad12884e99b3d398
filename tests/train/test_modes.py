"""What a program can be told to do, from Python and from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import toys
from ways import Start

import psclust
import psclust.estimator
from psclust.errors import PsclustError, UsageError
from psclust.train.offline.saved_model import numbered

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a toy model that has been trained."""
    folder = tmp_path_factory.mktemp("model")
    assert toys.line.train(folder) == 9
    return folder


def _predictor() -> Any:
    """Predicts in mode PREDICT for three points, from features only or with labels that it must
    ignore."""

    def predict_input() -> tf.data.Dataset:
        x = tf.constant([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        return tf.data.Dataset.from_tensor_slices(
            {"x": x, "word": tf.constant([0, 0, 0], tf.int64)}
        ).batch(2)

    def model_fn(
        features: Any, labels: Any, mode: str, params: dict[str, Any]
    ) -> psclust.EstimatorSpec:
        if mode != psclust.ModeKeys.PREDICT:
            return toys.line.model_fn(features, labels, mode, params)
        assert labels is None
        spec = toys.line.model_fn(features, tf.zeros([tf.shape(features["x"])[0]]), mode, params)
        return psclust.EstimatorSpec(
            mode, predictions={"guess": spec.predictions, "word": tf.as_string(features["word"])}
        )

    return psclust.Program(
        model_fn,
        toys.line.input_fn,
        toys.line.optimizer_fn,
        params=toys.LINE,
        predict_input_fn=predict_input,
    )


def test_evaluate_weights_the_last_batch_by_its_examples(trained: Path) -> None:
    all_of_it = toys.line.evaluate(trained)
    assert all_of_it.step == 9
    assert all_of_it.examples == 100
    one_batch = toys.line.with_params({"batch": 100}).evaluate(trained)
    assert one_batch.metrics == pytest.approx(all_of_it.metrics, rel=1e-4)
    assert toys.line.evaluate(trained, steps=2).examples == 24


def test_train_and_evaluate_does_both(tmp_path: Path) -> None:
    assert toys.line.train_and_evaluate(tmp_path, max_steps=4).step == 4
    assert toys.line.train_and_evaluate(tmp_path).step == 9


def test_predict_yields_a_dict_for_each_example(trained: Path) -> None:
    predictions = list(_predictor().predict(trained))
    assert [row["word"] for row in predictions] == [b"0"] * 3
    guesses = np.array([row["guess"] for row in predictions])
    # The line has slopes 2 and -3.
    assert guesses[1] - guesses[0] > 0.5
    assert guesses[2] - guesses[0] < -0.5


def test_predictions_without_names_are_yielded_as_they_are(trained: Path) -> None:
    def model_fn(features: Any) -> psclust.EstimatorSpec:
        return psclust.EstimatorSpec("infer", predictions=features * 2.0)

    assert [value.tolist() for value in _predicting(model_fn).predict(trained)] == [[2.0], [4.0]]


def test_a_prediction_of_another_length_than_the_batch_is_an_error(trained: Path) -> None:
    def model_fn(features: Any) -> psclust.EstimatorSpec:
        return psclust.EstimatorSpec(
            "infer", predictions={"all": features, "sum": tf.reduce_sum(features)}
        )

    with pytest.raises(UsageError, match=r"one row for each example.*sum: \(\)"):
        list(_predicting(model_fn).predict(trained))


def _predicting(model_fn: Callable[..., Any]) -> psclust.Program:
    """For two examples, 1 and 2."""
    return psclust.Program(
        model_fn,
        lambda: None,
        predict_input_fn=lambda: tf.data.Dataset.from_tensors([[1.0], [2.0]]),
    )


def test_an_exported_model_is_read_by_tensorflow_2_and_1(trained: Path, tmp_path: Path) -> None:
    shapes = {"x": tf.TensorSpec([None, 2], tf.float32), "word": tf.TensorSpec([None], tf.int64)}
    receiver = psclust.estimator.export.build_raw_serving_input_receiver_fn(shapes)
    path = _predictor().export_saved_model(tmp_path, receiver, model_dir=trained)
    assert path.parent == tmp_path
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    expected = [row["guess"] for row in _predictor().predict(trained)]

    x, word = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 0, 0]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        signature = meta.signature_def["serving_default"]
        feed = {signature.inputs["x"].name: x, signature.inputs["word"].name: word}
        assert session.run(signature.outputs["guess"].name, feed) == pytest.approx(
            expected, rel=1e-5
        )
    assert tf.executing_eagerly()
    outputs = tf.saved_model.load(str(path)).signatures["serving_default"](
        x=tf.constant(x), word=tf.constant(word, tf.int64)
    )
    assert outputs["guess"].numpy() == pytest.approx(expected, rel=1e-5)
    assert outputs["word"].numpy().tolist() == [b"0"] * 3


def test_signatures_for_serialized_examples(trained: Path, tmp_path: Path) -> None:
    export = psclust.estimator.export
    receiver = export.build_parsing_serving_input_receiver_fn(
        {"x": tf.io.FixedLenFeature([], tf.float32)}
    )

    def model_fn(features: Any) -> psclust.EstimatorSpec:
        outputs = {
            "serving_default": export.RegressionOutput(features["x"]),
            "both": export.ClassificationOutput(features["x"][:, None]),
        }
        return psclust.EstimatorSpec("infer", predictions=features["x"], export_outputs=outputs)

    program = psclust.Program(model_fn, lambda: None, serving_input_receiver_fn=receiver)
    path = program.export_saved_model(tmp_path, model_dir=trained)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        signature = meta.signature_def["serving_default"]
        assert signature.method_name == "tensorflow/serving/regress"
        assert meta.signature_def["both"].method_name == "tensorflow/serving/classify"
        example = tf.train.Example(
            features=tf.train.Features(feature={"x": tf.train.Feature(float_list={"value": [3.0]})})
        )
        fed = {signature.inputs["inputs"].name: [example.SerializeToString()]}
        assert session.run(signature.outputs["outputs"].name, fed).tolist() == [3.0]
    raw = export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None], tf.float32)})
    with pytest.raises(UsageError, match="a regression signature takes serialized examples"):
        program.export_saved_model(tmp_path, raw, model_dir=trained)


def test_what_is_missing_is_said_in_one_sentence(trained: Path, tmp_path: Path) -> None:
    bare = psclust.Program(toys.line.model_fn, lambda: None)
    endless = replace(
        bare, eval_input_fn=lambda: tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat()
    )

    def three(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        spec = toys.line.model_fn(features, labels, mode, params)
        return spec._replace(eval_metric_ops={"error": 3})

    for fails, sentence in (
        (lambda: next(bare.predict(trained)), "give the program a predict_input_fn"),
        (lambda: bare.evaluate(trained), "give the program an eval_input_fn"),
        (lambda: bare.export_saved_model(model_dir=trained), "serving_input_receiver_fn"),
        (lambda: toys.line.evaluate(tmp_path), "there is no checkpoint to evaluate"),
        (toys.line.train, "no folder for checkpoints"),
        (lambda: toys.line.with_params({"points": 0}).evaluate(trained), "held-out data is empty"),
        (lambda: endless.evaluate(trained), "never ends"),
        (
            lambda: replace(toys.line, model_fn=three).evaluate(trained),
            r"eval_metric_ops\['error'\] is a int",
        ),
    ):
        with pytest.raises(UsageError, match=sentence):
            fails()
    other = "checkpoint of another model: dense is missing; sparse is missing"
    with pytest.raises(PsclustError, match=other):
        toys.tally.evaluate(trained)


@pytest.mark.process
def test_the_chief_alone_evaluates_and_predicts(processes: Start) -> None:
    words = ["old_program:program", "--do", "train", "--max-steps", "20"]
    cluster = processes("between-graph", False, *words)
    cluster.end_well()
    model_dir = cluster.folder / "model"
    assert not (model_dir / "evaluation.json").exists()
    for do, made in (("evaluate", "evaluation.json"), ("predict", "predictions.jsonl")):
        cluster.arguments[2] = do
        cluster.start("worker:0")
        cluster.start("worker:1")
        cluster.end_well()
        said = f"worker:1 has nothing to do: --do {do} is for worker:0 only"
        assert said in cluster.log("worker:1")
        assert (model_dir / made).exists()
    saved = model_dir / "export"
    cluster.arguments[2] = "export"
    cluster.start("worker:0")
    assert cluster.end()["worker:0"] == 0
    assert [(path / "saved_model.pb").exists() for path in saved.iterdir()] == [True]
    lines = (model_dir / "predictions.jsonl").read_text().splitlines()
    assert len(lines) == 64
    assert sum(json.loads(lines[0])["probabilities"]) == pytest.approx(1.0)


def test_a_model_exported_after_the_clock_went_back_has_the_highest_number(tmp_path: Path) -> None:
    for name in ("99999999999", "not-a-number", ".new"):
        (tmp_path / name).mkdir()
    assert numbered(tmp_path / ".new", tmp_path) == tmp_path / "100000000000"
