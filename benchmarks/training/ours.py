"""The psclust program of each model: `psclust up ... ours:small`.

Each has a session hook, as most programs do. `--set hook=` gives it another one: `none`, `logging`
(reads the loss every tenth step), or `nan` (reads the loss in every step).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import models
import tensorflow as tf

import psclust


class Counting(tf.compat.v1.train.SessionRunHook):
    """Counts steps, and reads nothing of them."""

    def __init__(self) -> None:
        self.steps = 0

    def before_run(self, run_context: Any) -> None:
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.steps += 1


HOOKS: Mapping[str, Callable[[Any], Sequence[Any]]] = {
    "none": lambda loss: (),
    "counting": lambda loss: (Counting(),),
    "logging": lambda loss: (
        tf.compat.v1.train.LoggingTensorHook({"loss": loss}, every_n_iter=10),
    ),
    "nan": lambda loss: (tf.compat.v1.train.NanTensorHook(loss),),
}


def _program(model: models.Model) -> psclust.Program:
    def model_fn(
        features: Any, labels: Any, mode: str, params: Mapping[str, str]
    ) -> psclust.EstimatorSpec:
        loss = model.loss(tf.compat.v1.get_variable, features, labels)
        return psclust.EstimatorSpec(mode, loss=loss, training_hooks=HOOKS[params["hook"]](loss))

    def optimizer_fn() -> Any:
        return tf.compat.v1.train.GradientDescentOptimizer(models.RATE)

    return psclust.Program(
        model_fn,
        model.dataset,
        optimizer_fn,
        params={"hook": "counting"},
        config=psclust.TrainConfig(save_seconds=None),
    )


small, large, embedding, skewed = (
    _program(models.MODELS[name]) for name in ("small", "large", "embedding", "skewed")
)
