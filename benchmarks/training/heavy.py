"""A gigabyte of variables, of which a step touches some rows: what moves when ps come or go."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import psclust

TABLES, ROWS, WIDTH = 16, 1 << 16, 256  # 64 MB each


def _parts(params: dict[str, Any]) -> list[tuple[int, int]]:
    return psclust.ranges(params["examples"], 10_000)


def _input(part: Any) -> tf.data.Dataset:
    return tf.data.Dataset.range(part[0], part[1]).batch(20)


def _model(features: Any, labels: Any, mode: str) -> psclust.EstimatorSpec:
    loss = 0.0
    for number in range(TABLES):
        table = tf.compat.v1.get_variable(f"table_{number}", [ROWS, WIDTH])
        rows = tf.nn.embedding_lookup(table, (features + number) % ROWS)
        loss += tf.reduce_mean(rows * rows)
    return psclust.EstimatorSpec(mode, loss=loss)


program = psclust.Program(
    _model,
    _input,
    lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
    data_parts=_parts,
    params={"examples": 100_000_000},
    config=psclust.TrainConfig(save_seconds=None),
)
