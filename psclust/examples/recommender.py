"""A recommender with four embedding tables of very different size, for real paragraphs and the words that they use.

    psclust up -f cluster_specs/recommender.yaml

Python and scikit-learn ship no ratings, so a text stands for them: the Python language reference as `help()` shows it.
A paragraph is the user, a word the item, and a paragraph that uses a word has chosen it. Like a user it has a group, its topic; like an
item a word has a category, its ending. Every tenth choice is held out. Beside each the model is shown the choice of somebody else, so
words that everybody likes are no help, and to guess is right half of the time (auc 0.5). It trains in every kind of replication.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf

import psclust
from psclust.examples.data import paragraphs

_RAREST, _MOST_COMMON = 5, 100
_ENDING = 3  # letters


class Choices:
    """users, items: int32 [n], who has chosen what. group_of: int32 [users]. category_of: int32 [items]. sizes: rows of each table."""

    def __init__(self) -> None:
        found = paragraphs()
        counts = Counter(chain.from_iterable(set(words) for _, words in found))
        # Words that hardly anybody uses cannot be learned, and words that everybody uses say nothing.
        kept = sorted(word for word, count in counts.items() if _RAREST <= count <= _MOST_COMMON)
        numbers = {word: number for number, word in enumerate(kept)}
        chosen = [(user, numbers[word]) for user, (_, words) in enumerate(found) for word in sorted(set(words)) if word in numbers]
        self.users, self.items = np.random.default_rng(0).permutation(np.array(chosen, np.int32)).T
        self.group_of = np.array([topic for topic, _ in found], np.int32)
        endings = sorted({word[-_ENDING:] for word in kept})
        self.category_of = np.array([endings.index(word[-_ENDING:]) for word in kept], np.int32)
        self.sizes = {"user": len(found), "item": len(kept), "group": int(self.group_of.max()) + 1, "category": len(endings)}


def input_fn(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Batches of (features by table [2 * batch] int32, labels [2 * batch] float32: 1 for a choice, 0 for what somebody else has chosen)."""
    choices, training = Choices(), mode == psclust.ModeKeys.TRAIN
    held_out = np.arange(len(choices.users)) % 10 == 9
    part = ~held_out if training else held_out
    dataset = tf.data.Dataset.from_tensor_slices((choices.users[part], choices.items[part]))
    if training:
        dataset = dataset.shard(shard.count, shard.index).shuffle(len(choices.users), seed=1).repeat(params["epochs"])

    def beside_others(users: Any, items: Any) -> tuple[Any, Any]:
        labels = tf.concat([tf.ones_like(users, tf.float32), tf.zeros_like(users, tf.float32)], 0)
        users, items = tf.concat([users, users], 0), tf.concat([items, tf.roll(items, 1, 0)], 0)
        groups, categories = tf.gather(choices.group_of, users), tf.gather(choices.category_of, items)
        return {"user": users, "item": items, "group": groups, "category": categories}, labels

    # Full batches in training: then `psclust plan` knows how many rows a step touches.
    return dataset.batch(params["batch_size"], drop_remainder=training).map(beside_others).prefetch(2)


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> psclust.EstimatorSpec:
    """How well the vector of a user and its group goes with that of an item and its category."""
    rows = {table: _rows(table, size, features[table], params["width"]) for table, size in Choices().sizes.items()}
    logits = tf.reduce_sum((rows["user"] + rows["group"]) * (rows["item"] + rows["category"]), 1)
    probability = tf.sigmoid(logits)
    if mode == psclust.ModeKeys.PREDICT:
        return psclust.EstimatorSpec(mode, predictions={"user": features["user"], "item": features["item"], "probability": probability})
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    return psclust.EstimatorSpec(mode, loss=loss, eval_metric_ops={"auc": tf.compat.v1.metrics.auc(labels, probability)})


def _rows(table: str, size: int, numbers: Any, width: int) -> Any:
    initializer = tf.compat.v1.random_uniform_initializer(-0.1, 0.1)
    return tf.nn.embedding_lookup(tf.compat.v1.get_variable(f"{table}_vectors", [size, width], initializer=initializer), numbers)


def optimizer_fn(params: dict[str, Any]) -> tf.compat.v1.train.Optimizer:
    return tf.compat.v1.train.AdagradOptimizer(params["learning_rate"])


program = psclust.Program(
    model_fn,
    input_fn,
    optimizer_fn,
    params={"batch_size": 64, "epochs": 5, "learning_rate": 2.0, "width": 16},
    seed=7,
)
