"""The psclust program of each model: `psclust up ... ours:small`."""

from __future__ import annotations

from typing import Any

import models
import tensorflow as tf

import psclust


def _program(model: models.Model) -> psclust.Program:
    def model_fn(features: Any, labels: Any) -> psclust.EstimatorSpec:
        return psclust.EstimatorSpec(
            "train", loss=model.loss(tf.compat.v1.get_variable, features, labels)
        )

    def optimizer_fn() -> Any:
        return tf.compat.v1.train.GradientDescentOptimizer(models.RATE)

    return psclust.Program(
        model_fn, model.dataset, optimizer_fn, config=psclust.TrainConfig(save_seconds=None)
    )


small, large, embedding, skewed = (
    _program(models.MODELS[name]) for name in ("small", "large", "embedding", "skewed")
)
