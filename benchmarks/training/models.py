"""The models of the benchmark, each written once for every way of training: `get(name, shape)` makes or finds a variable. Every step
uses one batch again, so that reading data costs nobody anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from skewed_shapes import SKEWED

Get = Callable[[str, list[int]], Any]
RATE = 0.01
SEED = 1


@dataclass(frozen=True)
class Model:
    """examples: of a batch. loss(get, features, labels): the mean over a batch."""

    examples: int
    inputs: Callable[[int], Any]
    loss: Callable[[Get, Any, Any], Any]

    def dataset(self) -> Any:
        """The same batch for ever."""
        labels = np.random.default_rng(SEED).integers(0, 10, self.examples)
        return tf.data.Dataset.from_tensors((self.inputs(self.examples), labels)).repeat()


def _images(examples: int) -> Any:
    return np.random.default_rng(SEED).random((examples, 784), np.float32)


def _words(examples: int) -> Any:
    return np.random.default_rng(SEED).integers(0, _ROWS, (examples, _WORDS))


def _dense(widths: tuple[int, ...]) -> Callable[[Get, Any, Any], Any]:
    def loss(get: Get, features: Any, labels: Any) -> Any:
        x, last = features, 784
        for index, width in enumerate((*widths, 10)):
            x = tf.matmul(x, get(f"kernel_{index}", [last, width])) + get(f"bias_{index}", [width])
            x, last = tf.nn.relu(x) if width != 10 else x, width
        return _entropy(labels, x)

    return loss


_ROWS, _WORDS, _WIDTH = 200_000, 8, 64


def _embedding(get: Get, features: Any, labels: Any) -> Any:
    # Flat ids: ParameterServerStrategy's partitioned variables take no others.
    rows = tf.gather(get("table", [_ROWS, _WIDTH]), tf.reshape(features, [-1]))
    x = tf.reshape(rows, [-1, _WORDS * _WIDTH])
    return _entropy(labels, tf.matmul(x, get("kernel", [_WORDS * _WIDTH, 10])) + get("bias", [10]))


def _skewed(get: Get, features: Any, labels: Any) -> Any:
    """Hardly any computation: a step is what the wire takes."""
    return sum(tf.nn.l2_loss(get(name, shape)) for name, shape in SKEWED.items())


def _entropy(labels: Any, logits: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


MODELS = {
    # 0.4 MB of variables.
    "small": Model(32, _images, _dense((128,))),
    # 19 MB.
    "large": Model(32, _images, _dense((2048, 1536))),
    # 51 MB, of which a batch uses 2048 rows, 0.5 MB.
    "embedding": Model(256, _words, _embedding),
    "skewed": Model(1, _images, _skewed),
}
