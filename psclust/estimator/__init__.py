"""The names that model functions use of `tf.estimator`, which TensorFlow removed in 2.16:
`EstimatorSpec`, `ModeKeys` and `export`.

After `install()`, a model function written for TensorFlow 1.15 runs unchanged.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import tensorflow as tf

from psclust.estimator import export
from psclust.replication.model import EstimatorSpec, ModeKeys

__all__ = ["EstimatorSpec", "ModeKeys", "export", "install"]


def install() -> None:
    """Makes this module `tf.estimator` and `tf.compat.v1.estimator` if TensorFlow has none."""
    # The first `import tensorflow.compat.v1` creates a module other than the attribute
    # tf.compat.v1; programs use both.
    modules: list[Any] = [tf, tf.compat.v1, importlib.import_module("tensorflow.compat.v1")]
    for module in modules:
        if not hasattr(module, "estimator"):
            module.estimator = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    raise AttributeError(
        f"psclust's tf.estimator has {', '.join(__all__[:3])}, but no {name}; what an Estimator "
        "did is psclust.Program(model_fn, input_fn) with a TrainConfig, and `psclust up`"
    )
