"""Wide and deep: a linear model on crossed categories plus a network on embeddings, with
`tf.feature_column`, on real patients.

    psclust up --ps 2 --workers 2 psclust.examples.wide_deep:program
    python -m psclust.train psclust.examples.wide_deep:program --do predict --model-dir ...

After H.-T. Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016. The data are the 442
diabetes patients that scikit-learn ships (B. Efron et al., "Least Angle Regression", 2004): age,
sex, body mass index, blood pressure and six blood values, and whether the disease progressed by
more than the median within a year. Feature columns are deprecated but still work in TensorFlow
2.21, including `linear_model` and `input_layer`. Trains in every kind of replication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import psclust
from psclust.examples.data import installed
from psclust.examples.layers import dense

_HELD_OUT = 110
_BLOOD = ("s1", "s2", "s3", "s4", "s5", "s6")


def patients(*, held_out: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """({name: [n] float32; sex: [n] int64, 1 or 2}, [n] int64: 1 if the disease progressed by more
    than the median)."""
    found = installed("sklearn.datasets").load_diabetes(scaled=False)
    order = np.random.default_rng(0).permutation(len(found.target))
    part = order[:_HELD_OUT] if held_out else order[_HELD_OUT:]
    values = dict(zip(found.feature_names, found.data[part].T, strict=True))
    features = {
        name: column.astype(np.int64 if name == "sex" else np.float32)
        for name, column in values.items()
    }
    return features, (found.target > np.median(found.target))[part].astype(np.int64)


def input_fn(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Batches of (features by name, labels [batch] int64)."""
    training = mode == psclust.ModeKeys.TRAIN
    features, labels = patients(held_out=not training)
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    if training:
        dataset = (
            dataset.shard(shard.count, shard.index)
            .shuffle(len(labels), seed=1)
            .repeat(params["epochs"])
        )
    return dataset.batch(params["batch_size"]).prefetch(2)


def columns() -> tuple[list[Any], list[Any]]:
    """The feature columns of the wide part and of the deep part."""
    column, known = tf.feature_column, patients(held_out=False)[0]
    numeric = [
        column.numeric_column(name, normalizer_fn=_standardized(known[name]))
        for name in ("age", "bmi", "bp", *_BLOOD)
    ]
    sex = column.categorical_column_with_vocabulary_list("sex", [1, 2], tf.int64)
    age = column.bucketized_column(column.numeric_column("age"), [30, 40, 50, 60])
    bmi = column.bucketized_column(column.numeric_column("bmi"), [20, 23, 25, 27.5, 30, 35])
    pressure = column.bucketized_column(column.numeric_column("bp"), [80, 90, 100, 110])
    sex_and_age = column.crossed_column(["sex", age], 50)
    bmi_and_pressure = column.crossed_column([bmi, pressure], 100)
    wide = [sex, age, bmi, pressure, sex_and_age, bmi_and_pressure]
    deep = [*numeric, column.indicator_column(sex), column.embedding_column(bmi_and_pressure, 4)]
    return wide, deep


def _standardized(known: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    mean, deviation = known.mean(), known.std()
    return lambda values: (values - mean) / deviation


def model_fn(
    features: dict[str, tf.Tensor], labels: tf.Tensor, mode: str, params: dict[str, Any]
) -> psclust.EstimatorSpec:
    """The sum of both parts is the log-odds that the disease progresses further."""
    wide, deep = columns()
    x = tf.compat.v1.feature_column.input_layer(features, deep)
    x = tf.nn.relu(dense(x, params["units"], "hidden1"))
    x = tf.nn.relu(dense(x, params["units"] // 2, "hidden2"))
    logits = (dense(x, 1, "deep") + tf.compat.v1.feature_column.linear_model(features, wide))[:, 0]
    probability = tf.sigmoid(logits)
    predictions = {"probability": probability, "further": tf.cast(probability > 0.5, tf.int64)}
    if mode == psclust.ModeKeys.PREDICT:
        return psclust.EstimatorSpec(mode, predictions=predictions)
    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels, tf.float32), logits=logits)
    )
    metrics = {
        "accuracy": tf.compat.v1.metrics.accuracy(labels, predictions["further"]),
        "auc": tf.compat.v1.metrics.auc(labels, probability),
    }
    return psclust.EstimatorSpec(mode, predictions=predictions, loss=loss, eval_metric_ops=metrics)


def optimizer_fn(params: dict[str, Any]) -> tf.compat.v1.train.Optimizer:
    # One optimizer for both parts; Estimator used FTRL for the wide one.
    return tf.compat.v1.train.AdagradOptimizer(params["learning_rate"])


program = psclust.Program(
    model_fn,
    input_fn,
    optimizer_fn,
    params={"batch_size": 16, "epochs": 20, "learning_rate": 0.05, "units": 16},
    seed=7,
)
