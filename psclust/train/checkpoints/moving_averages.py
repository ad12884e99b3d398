"""Restoring weights from the moving averages of a training with `TrainConfig.average_decay`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.train.checkpoints.checkpoint import entry_of


def averages() -> dict[str, Any]:
    """name of the average in a checkpoint -> the trainable variable of the current graph, or a list
    of its parts if it is partitioned; for `tf.compat.v1.train.Saver`."""
    found: dict[str, list[Any]] = {}
    for variable in tf.compat.v1.trainable_variables():
        found.setdefault(f"{entry_of(variable).name}/ExponentialMovingAverage", []).append(variable)
    return {name: parts if len(parts) > 1 else parts[0] for name, parts in found.items()}


def refuse_without_averages(prefix: str, wanted: Mapping[str, Any], found: Collection[str]) -> None:
    """Raises UsageError if a checkpoint lacks any of the averages."""
    missing = [name for name in wanted if name not in found]
    if missing:
        raise UsageError(
            f"{prefix} has no moving averages ({', '.join(missing)} missing), "
            "which average_decay asks for; train with average_decay, or leave it out here"
        )
