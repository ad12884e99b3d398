"""The names of `tf.estimator`, which TensorFlow removed in 2.16, that model functions use: `EstimatorSpec`, `ModeKeys` and `export`.

`install()` puts them where such a function looks for them, so that one written for TensorFlow 1.15 runs as it is.
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
    """Makes this module `tf.estimator` and `tf.compat.v1.estimator` where there is none."""
    # `import tensorflow.compat.v1` makes a module of its own the first time, other than the attribute was before; both are in use then.
    modules: list[Any] = [tf, tf.compat.v1, importlib.import_module("tensorflow.compat.v1")]
    for module in modules:
        if not hasattr(module, "estimator"):
            module.estimator = sys.modules[__name__]
