"""`psclust.EarlyStopping`: a session hook that ends the training of all replicas when the loss no
longer falls."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Tensor

LOG = logging.getLogger(__name__)


class EarlyStopping(tf.compat.v1.train.SessionRunHook):
    """Requests a stop when the mean loss of the last `steps` steps is not lower by more than
    `least` than the lowest mean of as many steps before.

    `loss`: scalar tensor; the step's with `TrainConfig(stop_after=...)`, the model's own in the
    `training_hooks` of a model function.
    """

    def __init__(self, loss: Tensor, steps: int, least: float = 0.0) -> None:
        self._loss = loss
        self._steps = steps
        self._least = least
        self._best = float("inf")
        self._sum, self._count = 0.0, 0

    def before_run(self, run_context: Any) -> Any:
        return tf.compat.v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._sum, self._count = self._sum + float(run_values.results), self._count + 1
        if self._count < self._steps:
            return
        mean, self._sum, self._count = self._sum / self._count, 0.0, 0
        if mean < self._best - self._least:
            self._best = mean
            return
        LOG.info(
            "the mean loss of %d steps is %.4g, after %.4g before; stopping early",
            self._steps,
            mean,
            self._best,
        )
        run_context.request_stop()
