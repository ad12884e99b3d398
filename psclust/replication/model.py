"""What a model is to this package: the contract between user functions and the graphs that replicate them.

These are the words of the Estimator interface, which TensorFlow removed in 2.16: a model function is called with a mode and returns an
`EstimatorSpec`; an input function is called with the share of the data that one replica reads. Nothing here imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from psclust.replication.settings import Settings


class ModeKeys:
    """Why a graph is built; the strings are those of `tf.estimator.ModeKeys`."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


@dataclass(frozen=True, slots=True)
class Shard:
    """The share of the input that one replica reads: element `index` of every `count`."""

    index: int = 0
    count: int = 1


@dataclass(frozen=True)
class EstimatorSpec:
    """What a model function returns.

    mode: one of `ModeKeys`.
    predictions: tensor or dict of tensors.
    loss: scalar tensor, the mean over the batch; needed in TRAIN and EVAL. The gradient step is psclust's.
    eval_metric_ops: name -> (value, update op), as `tf.compat.v1.metrics` functions return; used in EVAL.
    """

    mode: str
    predictions: Any = None
    loss: Any = None
    eval_metric_ops: Mapping[str, tuple[Any, Any]] | None = None


class Model(Protocol):
    """The user's functions with their parameters bound; `psclust.train.program.Program` is the one implementation."""

    @property
    def input_on_client(self) -> bool: ...
    @property
    def config(self) -> Settings: ...

    def dataset(self, mode: str, shard: Shard) -> Any:
        """A `tf.data.Dataset` of batches."""

    def spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec: ...

    def optimizer(self, global_step: Any) -> Any:
        """A `tf.compat.v1.train.Optimizer`."""
