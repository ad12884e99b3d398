"""The digits stand the staleness of many asynchronous workers: its law, without its luck."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psclust
from psclust.examples.digits import input_fn, model_fn, program

pytestmark = pytest.mark.tensorflow

WORKERS = 4


@pytest.mark.long
def test_updates_that_are_as_old_as_with_four_workers_in_parallel_learn_the_digits(
    tmp_path: Path,
) -> None:
    import tensorflow as tf

    params: dict[str, Any] = {**program.params, "data_dir": str(tmp_path / "digits")}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(params["seed"])
        data = [
            input_fn(psclust.ModeKeys.TRAIN, params, psclust.Shard(index, WORKERS))
            for index in range(WORKERS)
        ]
        batches = [tf.compat.v1.data.make_one_shot_iterator(dataset).get_next() for dataset in data]
        held_out = tf.compat.v1.data.make_one_shot_iterator(
            input_fn(psclust.ModeKeys.EVAL, params, psclust.Shard())
        ).get_next()
        features = tf.compat.v1.placeholder(tf.float32, [None, 8, 8, 1])
        labels = tf.compat.v1.placeholder(tf.int64, [None])
        spec = model_fn(features, labels, psclust.ModeKeys.TRAIN, params)
        weights = tf.compat.v1.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(
            tf.gradients(spec.loss, weights), program.config.clip_norm or np.inf
        )
        values = [tf.compat.v1.placeholder(tf.float32, weight.shape) for weight in weights]
        put = tf.group(
            *[
                tf.compat.v1.assign(weight, value)
                for weight, value in zip(weights, values, strict=True)
            ]
        )
        session.run(tf.compat.v1.global_variables_initializer())
        now = average = session.run(weights)
        # Each worker reads the weights when its last update has been made, and three updates of
        # others come before its next.
        read = deque([now] * WORKERS)
        speed = [np.zeros_like(weight) for weight in now]
        for number in range(WORKERS * 134):
            session.run(put, dict(zip(values, read.popleft(), strict=True)))
            x, y = session.run(batches[number % WORKERS])
            found = session.run(gradients, {features: x, labels: y})
            speed = [params["momentum"] * v + g for v, g in zip(speed, found, strict=True)]
            now = [
                weight - params["learning_rate"] * v for weight, v in zip(now, speed, strict=True)
            ]
            read.append(now)
            kept = min(program.config.average_decay or 0.0, (1 + number) / (10 + number))
            average = [
                kept * mean + (1 - kept) * weight for mean, weight in zip(average, now, strict=True)
            ]
        session.run(put, dict(zip(values, average, strict=True)))
        x, y = session.run(held_out)
        assert np.mean(session.run(spec.predictions["class"], {features: x}) == y) >= 0.96
