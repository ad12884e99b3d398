"""What a model is to this package: the contract between user functions and the graphs that replicate them.

These are the words of the Estimator interface, which TensorFlow removed in 2.16: a model function is called with a mode and returns an
`EstimatorSpec`; an input function is called with the share of the data that one replica reads. Nothing here imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from psclust.errors import UsageError
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
    """What a model function returns; fields, order and meaning are those of `tf.estimator.EstimatorSpec`.

    mode: one of `ModeKeys`.
    predictions: tensor or dict of tensors; needed in PREDICT.
    loss: scalar tensor, the mean over the batch; needed in TRAIN and EVAL. The gradient step is psclust's.
    train_op: a ready gradient step, for a program without an optimizer_fn; between-graph asynchronous and in one process only.
    eval_metric_ops: name -> (value, update op), as `tf.compat.v1.metrics` functions return; used in EVAL.
    export_outputs: signature name -> `psclust.estimator.export.PredictOutput` and the like; used by export, default: the predictions.
    training_chief_hooks, training_hooks: `tf.compat.v1.train.SessionRunHook` objects, run by the chief, by everybody who trains.
    scaffold: a `tf.compat.v1.train.Scaffold`; of it, `init_op` and `init_fn` run where a training begins, `local_init_op` in every
        session, and `saver` restores in EVAL and PREDICT.
    evaluation_hooks, prediction_hooks: run around every batch of EVAL and of PREDICT.
    """

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Mapping[str, tuple[Any, Any]] | None = None
    export_outputs: Mapping[str, Any] | None = None
    training_chief_hooks: Sequence[Any] | None = None
    training_hooks: Sequence[Any] | None = None
    scaffold: Any = None
    evaluation_hooks: Sequence[Any] | None = None
    prediction_hooks: Sequence[Any] | None = None

    def _replace(self, **changes: Any) -> EstimatorSpec:
        """As a namedtuple has it, which TensorFlow's own class was."""
        return replace(self, **changes)


def as_spec(returned: Any) -> EstimatorSpec:
    """What a model function returned as an EstimatorSpec; any object with a `mode` and a `loss` or `predictions` will do. Raises
    UsageError."""
    if isinstance(returned, EstimatorSpec):
        return returned
    if not hasattr(returned, "mode") or not (hasattr(returned, "loss") or hasattr(returned, "predictions")):
        raise UsageError(f"model_fn returned a {type(returned).__name__}; return psclust.EstimatorSpec(mode, loss=...)")
    found: dict[str, Any] = {field.name: getattr(returned, field.name, None) for field in fields(EstimatorSpec)}
    return EstimatorSpec(**found)


class Model(Protocol):
    """The user's functions with their parameters bound; `psclust.train.definition.Definition` is the one implementation."""

    @property
    def input_on_client(self) -> bool: ...
    @property
    def config(self) -> Settings: ...

    def dataset(self, mode: str, shard: Shard) -> Any:
        """A `tf.data.Dataset` of batches."""

    def spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec: ...

    def optimizer(self, global_step: Any) -> Any:
        """A `tf.compat.v1.train.Optimizer`; None where the model function makes its own train_op."""
