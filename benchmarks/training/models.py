"""The models of the benchmark, each written once for every way of training: `get(name, shape)`
makes or finds a variable. Every step uses one batch again, so that reading data costs nobody
anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from model_sizes import CLASSES, EXAMPLES, PIXELS, ROWS, SKEWED, WIDTH, WIDTHS, WORDS

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
        labels = np.random.default_rng(SEED).integers(0, CLASSES, self.examples)
        return tf.data.Dataset.from_tensors((self.inputs(self.examples), labels)).repeat()


def _images(examples: int) -> Any:
    return np.random.default_rng(SEED).random((examples, PIXELS), np.float32)


def _words(examples: int) -> Any:
    return np.random.default_rng(SEED).integers(0, ROWS, (examples, WORDS))


def _dense(widths: tuple[int, ...]) -> Callable[[Get, Any, Any], Any]:
    def loss(get: Get, features: Any, labels: Any) -> Any:
        x, last = features, PIXELS
        for index, width in enumerate((*widths, CLASSES)):
            x = tf.matmul(x, get(f"kernel_{index}", [last, width])) + get(f"bias_{index}", [width])
            x, last = tf.nn.relu(x) if width != CLASSES else x, width
        return _entropy(labels, x)

    return loss


def _embedding(get: Get, features: Any, labels: Any) -> Any:
    # Flat ids: ParameterServerStrategy's partitioned variables take no others.
    rows = tf.gather(get("table", [ROWS, WIDTH]), tf.reshape(features, [-1]))
    x = tf.reshape(rows, [-1, WORDS * WIDTH])
    return _entropy(
        labels, tf.matmul(x, get("kernel", [WORDS * WIDTH, CLASSES])) + get("bias", [CLASSES])
    )


def _skewed(get: Get, features: Any, labels: Any) -> Any:
    """Hardly any computation: a step is what the wire takes."""
    return sum(tf.nn.l2_loss(get(name, shape)) for name, shape in SKEWED.items())


def _entropy(labels: Any, logits: Any) -> Any:
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


MODELS = {
    "small": Model(EXAMPLES["small"], _images, _dense(WIDTHS["small"])),
    "large": Model(EXAMPLES["large"], _images, _dense(WIDTHS["large"])),
    # A batch uses 2048 rows, 0.5 MB.
    "embedding": Model(EXAMPLES["embedding"], _words, _embedding),
    "skewed": Model(EXAMPLES["skewed"], _images, _skewed),
}
