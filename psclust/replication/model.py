"""The contract between the user's functions and the graphs that replicate them. No TensorFlow.

Its terms are those of the Estimator interface, which TensorFlow removed in 2.16: a model function
is called with a mode and returns an `EstimatorSpec`; an input function is called with the shard of
the data that one replica reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from psclust.errors import UsageError
from psclust.replication.parts.part_list import PartList
from psclust.replication.settings import Settings
from psclust.replication.tf_types import Dataset, Operation, Optimizer, Tensor, Tensors, Variable


class ModeKeys:
    """The purpose of a graph; the strings are those of `tf.estimator.ModeKeys`."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of the input that one replica reads: element `index` of every `count`."""

    index: int = 0
    count: int = 1


@dataclass(frozen=True)
class EstimatorSpec:
    """The result of a model function; fields, order and meaning are those of
    `tf.estimator.EstimatorSpec`.

    mode: one of `ModeKeys`.
    predictions: tensor or dict of tensors; needed in PREDICT.
    loss: scalar tensor, the mean over the batch; needed in TRAIN and EVAL. The gradient step is
        psclust's.
    train_op: a ready gradient step, for a program without an optimizer_fn; between-graph
        asynchronous and in one process only.
    eval_metric_ops: name -> (value, update op), as `tf.compat.v1.metrics` functions return; used in
        EVAL.
    export_outputs: signature name -> `psclust.estimator.export.PredictOutput` and the like; used by
        export, default: the predictions.
    training_chief_hooks, training_hooks: `tf.compat.v1.train.SessionRunHook` objects, run by the
        chief, by every replica.
    scaffold: a `tf.compat.v1.train.Scaffold`; its `init_op` and `init_fn` run when a training
        begins, `local_init_op` in every session, and `saver` restores in EVAL and PREDICT.
    evaluation_hooks, prediction_hooks: run around every batch of EVAL and of PREDICT.
    """

    mode: str
    predictions: Tensors = None
    loss: Tensor | None = None
    train_op: Operation | None = None
    eval_metric_ops: Mapping[str, tuple[Tensor, Operation]] | None = None
    export_outputs: Mapping[str, Any] | None = None
    training_chief_hooks: Sequence[Any] | None = None
    training_hooks: Sequence[Any] | None = None
    scaffold: Any = None
    evaluation_hooks: Sequence[Any] | None = None
    prediction_hooks: Sequence[Any] | None = None

    def _replace(self, **changes: Any) -> EstimatorSpec:
        """For compatibility: TensorFlow's class was a namedtuple."""
        return replace(self, **changes)


def as_spec(returned: Any) -> EstimatorSpec:
    """The result of a model function as an EstimatorSpec; takes any object with a `mode` and a
    `loss` or `predictions`. Raises UsageError for others."""
    if isinstance(returned, EstimatorSpec):
        return returned
    if not hasattr(returned, "mode") or not (
        hasattr(returned, "loss") or hasattr(returned, "predictions")
    ):
        raise UsageError(
            f"model_fn returned a {type(returned).__name__}; "
            "return psclust.EstimatorSpec(mode, loss=...)"
        )
    found: dict[str, Any] = {
        field.name: getattr(returned, field.name, None) for field in fields(EstimatorSpec)
    }
    return EstimatorSpec(**found)


class Model(Protocol):
    """The user's functions with their parameters bound. `psclust.train.definition.Definition`
    implements it."""

    @property
    def input_on_client(self) -> bool: ...
    @property
    def config(self) -> Settings: ...
    @property
    def parts(self) -> PartList | None:
        """Of the data to train on; None for a program that has not divided it."""

    def part_input(self) -> AbstractContextManager[Callable[..., Dataset]]:
        """The user's function, whose `part=` alone is not bound; to be called while this lasts."""

    def dataset(self, mode: str, shard: Shard) -> Dataset:
        """A dataset of batches."""

    def spec(self, features: Tensors, labels: Tensors, mode: str) -> EstimatorSpec: ...

    def optimizer(self, global_step: Variable) -> Optimizer | None:
        """The optimizer; None if the model function makes its own train_op."""
