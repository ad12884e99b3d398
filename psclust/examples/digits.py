"""Handwritten digits: the classic multi-tower convolutional network on scikit-learn's 1,797 real
8x8 images.

    psclust up --ps 2 --workers 2 psclust.examples.digits:program

The images are written once to TFRecord files, in the user's cache folder or `--set
data_dir=FOLDER`, and read with tf.data, a shard for each replica. If the files exist already,
scikit-learn is not needed. The dense layers have L2 losses, which the model takes from the
collection REGULARIZATION_LOSSES and adds to its loss.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import psclust
from psclust.examples.data import DIGITS_TRAINED_ON, digits
from psclust.examples.layers import Regularizer, conv, dense, pool
from psclust.rundir.folder import xdg_folder

_CLASSES = 10
_FILES = 4
_EVAL_BATCH = 360


def data_dir(params: dict[str, Any]) -> Path:
    """The folder of the TFRecord files: params["data_dir"], or one in the user's cache."""
    if params.get("data_dir"):
        return Path(params["data_dir"])
    return (
        Path(xdg_folder(os.environ, "XDG_CACHE_HOME") or Path.home() / ".cache")
        / "psclust"
        / "digits-v1"
    )


def write_digits(directory: Path) -> None:
    """Writes `train-<i>.tfrecord` and `eval.tfrecord` into `directory` unless it exists. Several
    processes may call it at once: each writes a folder of its own, and the first gets the name."""
    if directory.is_dir():
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".digits-", dir=directory.parent) as aside:
        made = Path(aside, directory.name)
        made.mkdir()
        _write_files(made)
        try:
            made.rename(directory)
        except OSError:
            if not directory.is_dir():
                raise


def _write_files(directory: Path) -> None:
    images, labels = digits(held_out=False)
    for i in range(_FILES):
        _write(directory / f"train-{i}.tfrecord", images[i::_FILES], labels[i::_FILES])
    _write(directory / "eval.tfrecord", *digits(held_out=True))


def _write(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for image, label in zip(images, labels, strict=True):
            writer.write(_example(image, int(label)))


def _example(image: np.ndarray, label: int) -> bytes:
    features = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def input_fn(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Batches of (images [batch, 8, 8, 1] float32 in 0..1, labels [batch] int64)."""
    directory = data_dir(params)
    write_digits(directory)
    if mode != psclust.ModeKeys.TRAIN:
        return (
            tf.data.TFRecordDataset(str(directory / "eval.tfrecord")).batch(_EVAL_BATCH).map(_parse)
        )
    records = tf.data.TFRecordDataset(
        [str(directory / f"train-{i}.tfrecord") for i in range(_FILES)]
    )
    records = (
        records.shard(shard.count, shard.index)
        .cache()
        .shuffle(DIGITS_TRAINED_ON, seed=params["seed"])
    )
    return records.repeat(params["epochs"]).batch(params["batch_size"]).map(_parse).prefetch(2)


def _parse(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    spec = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    parsed = tf.io.parse_example(records, spec)
    pixels = tf.reshape(tf.io.decode_raw(parsed["image"], tf.uint8), [-1, 8, 8, 1])
    return tf.cast(pixels, tf.float32) / 16.0, parsed["label"]


def model_fn(
    features: tf.Tensor, labels: tf.Tensor, mode: str, params: dict[str, Any]
) -> psclust.EstimatorSpec:
    """Two convolutions, each with a pooling layer, and three dense layers."""
    seed, penalty = params["seed"], _l2(params["l2"])
    x = pool(tf.nn.relu(conv(features, 32, "conv1", seed=seed)))
    x = pool(tf.nn.relu(conv(x, 64, "conv2", seed=seed + 1)))
    x = tf.reshape(x, [-1, 2 * 2 * 64])
    x = tf.nn.relu(dense(x, 128, "dense1", seed=seed + 2, regularizer=penalty))
    x = tf.nn.relu(dense(x, 64, "dense2", seed=seed + 3, regularizer=penalty))
    logits = dense(x, _CLASSES, "softmax", seed=seed + 4)
    classes = tf.argmax(logits, 1)
    if mode == psclust.ModeKeys.PREDICT:
        return psclust.EstimatorSpec(mode, predictions={"class": classes})
    cross_entropy = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    # The collection has only the losses of the current tower, so they count once however many
    # towers there are.
    loss = cross_entropy + tf.compat.v1.losses.get_regularization_loss()
    metrics = {"accuracy": tf.compat.v1.metrics.accuracy(labels, classes)}
    return psclust.EstimatorSpec(
        mode, predictions={"class": classes}, loss=loss, eval_metric_ops=metrics
    )


def _l2(rate: float) -> Regularizer:
    return lambda weights: rate * tf.nn.l2_loss(weights)


def optimizer_fn(params: dict[str, Any]) -> tf.compat.v1.train.Optimizer:
    return tf.compat.v1.train.MomentumOptimizer(params["learning_rate"], params["momentum"])


# Asynchrony acts like additional momentum, and some gradients are very stale: hence little
# momentum, and clipping. The average of the weights is better than the weights after any single
# step.
program = psclust.Program(
    model_fn,
    input_fn,
    optimizer_fn,
    params={
        "batch_size": 32,
        "epochs": 12,
        "learning_rate": 0.06,
        "momentum": 0.6,
        "l2": 5e-4,
        "seed": 7,
        "data_dir": "",
    },
    config=psclust.TrainConfig(clip_norm=3.0, average_decay=0.98),
)
