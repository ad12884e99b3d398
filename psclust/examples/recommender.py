"""A recommender with four embedding tables of very different size, for real paragraphs and their
words.

    psclust up -f cluster_specs/recommender.yaml

Python and scikit-learn ship no ratings, so a text stands in for them: the Python language reference
of `help()`. A paragraph is a user, a word an item, and a paragraph chooses the words it uses. A
user's group is the paragraph's topic; an item's category is the word's ending. Every tenth choice
is held out. Each choice is paired with one of another user as a negative example, so popularity
does not help, and a random guess has an AUC of 0.5. Trains in every kind of replication.
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
    """users, items: int32 [n], the choices. group_of: int32 [users]. category_of: int32 [items].
    sizes: rows of each table."""

    def __init__(self) -> None:
        found = paragraphs()
        counts = Counter(chain.from_iterable(set(words) for _, words in found))
        # Rare words cannot be learned, and common words carry no information.
        kept = sorted(word for word, count in counts.items() if _RAREST <= count <= _MOST_COMMON)
        numbers = {word: number for number, word in enumerate(kept)}
        chosen = [
            (user, numbers[word])
            for user, (_, words) in enumerate(found)
            for word in sorted(set(words))
            if word in numbers
        ]
        self.users, self.items = np.random.default_rng(0).permutation(np.array(chosen, np.int32)).T
        self.group_of = np.array([topic for topic, _ in found], np.int32)
        endings = sorted({word[-_ENDING:] for word in kept})
        self.category_of = np.array([endings.index(word[-_ENDING:]) for word in kept], np.int32)
        self.sizes = {
            "user": len(found),
            "item": len(kept),
            "group": int(self.group_of.max()) + 1,
            "category": len(endings),
        }


def input_fn(mode: str, params: dict[str, Any], shard: psclust.Shard) -> tf.data.Dataset:
    """Batches of (features by table [2 * batch] int32, labels [2 * batch] float32: 1 for a choice,
    0 for another user's choice)."""
    choices, training = Choices(), mode == psclust.ModeKeys.TRAIN
    held_out = np.arange(len(choices.users)) % 10 == 9
    part = ~held_out if training else held_out
    dataset = tf.data.Dataset.from_tensor_slices((choices.users[part], choices.items[part]))
    if training:
        dataset = (
            dataset.shard(shard.count, shard.index)
            .shuffle(len(choices.users), seed=1)
            .repeat(params["epochs"])
        )

    def add_negatives(users: tf.Tensor, items: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        labels = tf.concat([tf.ones_like(users, tf.float32), tf.zeros_like(users, tf.float32)], 0)
        users, items = tf.concat([users, users], 0), tf.concat([items, tf.roll(items, 1, 0)], 0)
        groups, categories = (
            tf.gather(choices.group_of, users),
            tf.gather(choices.category_of, items),
        )
        return {"user": users, "item": items, "group": groups, "category": categories}, labels

    # Full batches in training, so `psclust plan` knows how many rows a step touches.
    return (
        dataset.batch(params["batch_size"], drop_remainder=training).map(add_negatives).prefetch(2)
    )


def model_fn(
    features: dict[str, tf.Tensor], labels: tf.Tensor, mode: str, params: dict[str, Any]
) -> psclust.EstimatorSpec:
    """The dot product of two vectors: of the user and its group, and of the item and its
    category."""
    rows = {
        table: _rows(table, size, features[table], params["width"])
        for table, size in Choices().sizes.items()
    }
    logits = tf.reduce_sum((rows["user"] + rows["group"]) * (rows["item"] + rows["category"]), 1)
    probability = tf.sigmoid(logits)
    if mode == psclust.ModeKeys.PREDICT:
        return psclust.EstimatorSpec(
            mode,
            predictions={
                "user": features["user"],
                "item": features["item"],
                "probability": probability,
            },
        )
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    return psclust.EstimatorSpec(
        mode, loss=loss, eval_metric_ops={"auc": tf.compat.v1.metrics.auc(labels, probability)}
    )


def _rows(table: str, size: int, numbers: tf.Tensor, width: int) -> tf.Tensor:
    initializer = tf.compat.v1.random_uniform_initializer(-0.1, 0.1)
    return tf.nn.embedding_lookup(
        tf.compat.v1.get_variable(f"{table}_vectors", [size, width], initializer=initializer),
        numbers,
    )


def optimizer_fn(params: dict[str, Any]) -> tf.compat.v1.train.Optimizer:
    return tf.compat.v1.train.AdagradOptimizer(params["learning_rate"])


program = psclust.Program(
    model_fn,
    input_fn,
    optimizer_fn,
    params={"batch_size": 64, "epochs": 5, "learning_rate": 2.0, "width": 16},
    seed=7,
)
