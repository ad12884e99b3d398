"""Word vectors of a real text: skip-gram with sampled softmax, from tables partitioned over the ps,
of which a step touches few rows.

    psclust up -f cluster_specs/skip-gram.yaml
    python -m psclust.train psclust.examples.skip_gram:program --do predict --model-dir ...

After T. Mikolov et al., "Distributed Representations of Words and Phrases and their
Compositionality", 2013. The text is the Python language reference of `help()`, which comes with
Python. The vector of a word predicts the words around it; every tenth paragraph is held out.
`by_frequency` is the loss of a model that knows only the frequency of words. Predictions are the
words nearest to frequent ones. Trains in every kind of replication.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf

import psclust
from psclust.examples.data import paragraphs

_RAREST = 5
_NEAREST = 5
_SHOWN = 200


def vocabulary() -> tuple[list[str], np.ndarray]:
    """The words that occur at least five times, most frequent first, and the count of each."""
    counts = Counter(chain.from_iterable(words for _, words in paragraphs()))
    known = [(word, count) for word, count in counts.most_common() if count >= _RAREST]
    return [word for word, _ in known], np.array([count for _, count in known], np.float32)


def text(words: list[str], *, held_out: bool) -> np.ndarray:
    """The known words as numbers, in order: of every tenth paragraph if `held_out`, else of the
    others."""
    numbers = {word: number for number, word in enumerate(words)}
    chosen = [
        found for place, (_, found) in enumerate(paragraphs()) if (place % 10 == 9) == held_out
    ]
    return np.array(
        [numbers[word] for word in chain.from_iterable(chosen) if word in numbers], np.int32
    )


def input_fn(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Batches of (words [batch] int32, their neighbours [batch, 2 * window] int32); to predict, of
    words alone."""
    words, window, training = vocabulary()[0], params["window"], mode == psclust.ModeKeys.TRAIN
    if mode == psclust.ModeKeys.PREDICT:
        return tf.data.Dataset.range(_SHOWN).batch(_SHOWN)
    numbers = text(words, held_out=mode == psclust.ModeKeys.EVAL)
    around = np.array([offset for offset in range(-window, window + 1) if offset], np.int64)
    places = tf.data.Dataset.range(window, len(numbers) - window)
    if training:
        places = (
            places.shard(shard.count, shard.index)
            .shuffle(len(numbers), seed=1)
            .repeat(params["epochs"])
        )

    def look_up(at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Only positions are shuffled; the words are gathered from the one array of the text.
        return tf.gather(numbers, at), tf.gather(numbers, at[:, None] + around)

    # Full batches in training, so `psclust plan` knows how many rows a step touches.
    return places.batch(params["batch_size"], drop_remainder=training).map(look_up).prefetch(2)


def model_fn(
    features: tf.Tensor, labels: tf.Tensor, mode: str, params: dict[str, Any]
) -> psclust.EstimatorSpec:
    """Two tables: the word vectors, and the softmax weights that predict a word from the vector of
    another."""
    words, counts = vocabulary()
    size, width = len(words), params["width"]
    vectors = tf.compat.v1.get_variable(
        "vectors", [size, width], initializer=tf.compat.v1.random_uniform_initializer(-0.5, 0.5)
    )
    weights = tf.compat.v1.get_variable(
        "weights", [size, width], initializer=tf.compat.v1.zeros_initializer()
    )
    biases = tf.compat.v1.get_variable(
        "biases", [size], initializer=tf.compat.v1.zeros_initializer()
    )
    if mode == psclust.ModeKeys.PREDICT:
        return psclust.EstimatorSpec(mode, predictions=_nearest(features, vectors, words))
    neighbours = tf.reshape(labels, [-1])
    x = tf.repeat(tf.nn.embedding_lookup(vectors, features), labels.shape[1], axis=0)
    if mode == psclust.ModeKeys.TRAIN:
        # Gradients are IndexedSlices: only the rows of the batch's words and of the sampled ones
        # travel.
        losses = tf.nn.sampled_softmax_loss(
            weights, biases, neighbours[:, None], x, params["sampled"], size
        )
        return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(losses))
    logits = tf.matmul(x, weights, transpose_b=True) + biases
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=neighbours, logits=logits)
    )
    by_frequency = -tf.gather(np.log(counts / counts.sum()), neighbours)
    return psclust.EstimatorSpec(
        mode, loss=loss, eval_metric_ops={"by_frequency": tf.compat.v1.metrics.mean(by_frequency)}
    )


def _nearest(numbers: tf.Tensor, vectors: tf.Variable, words: list[str]) -> dict[str, tf.Tensor]:
    """The words with the highest cosine similarity to each of `numbers`, except the word itself."""
    unit = tf.nn.l2_normalize(tf.convert_to_tensor(vectors), 1)
    nearest = tf.math.top_k(
        tf.matmul(tf.gather(unit, numbers), unit, transpose_b=True), _NEAREST + 1
    ).indices[:, 1:]
    return {"word": tf.gather(words, numbers), "nearest": tf.gather(words, nearest)}


def optimizer_fn(params: dict[str, Any]) -> tf.compat.v1.train.Optimizer:
    return tf.compat.v1.train.AdagradOptimizer(params["learning_rate"])


program = psclust.Program(
    model_fn,
    input_fn,
    optimizer_fn,
    params={
        "batch_size": 128,
        "epochs": 5,
        "learning_rate": 1.0,
        "sampled": 64,
        "width": 32,
        "window": 1,
    },
    seed=7,
)
