"""`psclust.Program`: a model, its input and its optimizer, in the words of the Estimator interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psclust.errors import UsageError
from psclust.replication.model import EstimatorSpec, ModeKeys, Shard, as_spec
from psclust.train.config import TrainConfig, changed
from psclust.train.optional_arguments import call_with, takes

if TYPE_CHECKING:
    from psclust.train.offline.evaluation import Evaluation

PathLike = str | os.PathLike[str]

__all__ = ["EstimatorSpec", "ModeKeys", "Program", "Shard"]


@dataclass(frozen=True)
class Program:
    """One program, trained in-graph or between-graph, synchronously or asynchronously, or in one process, by a flag.

    model_fn(features, labels, mode, params, config) -> EstimatorSpec (or an object like it). All but `features` may be left out of its
        signature; `config`, which Estimator model functions may have, is None. It makes
        its variables with `tf.compat.v1.get_variable`, so that towers can share them.
    input_fn(mode, params, shard) -> tf.data.Dataset of (features, labels) batches, any subset of the arguments. A replica trains on
        shard `shard.index` of `shard.count`, until the dataset ends. With mode EVAL it returns the held-out data.
    optimizer_fn(params, global_step) -> tf.compat.v1.train.Optimizer, any subset of the arguments; None where model_fn returns a
        ready train_op, which can be used between-graph asynchronous and in one process.
    params: passed to the functions; `--set key=value` on the command line replaces values.
    eval_input_fn(params) -> tf.data.Dataset of held-out batches, for an input_fn that does not take `mode`.
    seed: the graph-level random seed.
    input_on_client: in-graph, run the input in the client rather than on the workers, for an input_fn that calls Python.
    predict_input_fn(params) -> tf.data.Dataset to predict for, of features or (features, labels), for an input_fn without `mode`.
    serving_input_receiver_fn() -> psclust.estimator.export.ServingInputReceiver: what requests to an exported model look like.
    config: the settings of the training, see `TrainConfig`; `--config key=value` on the command line replaces some.
    """

    model_fn: Callable[..., EstimatorSpec]
    input_fn: Callable[..., Any]
    optimizer_fn: Callable[..., Any] | None = None
    params: Mapping[str, Any] | None = field(default=None, kw_only=True)
    eval_input_fn: Callable[..., Any] | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    input_on_client: bool = field(default=False, kw_only=True)
    predict_input_fn: Callable[..., Any] | None = field(default=None, kw_only=True)
    serving_input_receiver_fn: Callable[..., Any] | None = field(default=None, kw_only=True)
    config: TrainConfig = field(default=TrainConfig(), kw_only=True)

    def with_params(self, changes: Mapping[str, Any]) -> Program:
        return replace(self, params={**(self.params or {}), **changes})

    def with_config(self, changes: Sequence[str]) -> Program:
        """Raises UsageError, see `psclust.train.config.changed`."""
        return replace(self, config=changed(self.config, changes))

    @property
    def has_evaluation(self) -> bool:
        """Whether there is held-out data to evaluate on."""
        return self.eval_input_fn is not None or takes(self.input_fn, "mode")

    @property
    def has_prediction(self) -> bool:
        """Whether there is something to predict for."""
        return self.predict_input_fn is not None or takes(self.input_fn, "mode")

    def dataset(self, mode: str, shard: Shard) -> Any:
        from psclust.train.user_errors import refusals

        offered = {"mode": mode, "params": dict(self.params or {}), "shard": shard}
        own = {ModeKeys.EVAL: self.eval_input_fn, ModeKeys.PREDICT: self.predict_input_fn}.get(mode)
        with refusals("input_fn", mode):
            return call_with(own or self.input_fn, **offered)

    def spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        from psclust.train.user_errors import refusals

        with refusals("model_fn", mode, features, labels):
            return as_spec(call_with(self.model_fn, features, labels, mode=mode, params=dict(self.params or {}), config=None))

    def optimizer(self, global_step: Any) -> Any:
        if self.optimizer_fn is None:
            return None
        optimizer = call_with(self.optimizer_fn, params=dict(self.params or {}), global_step=global_step)
        if not hasattr(optimizer, "compute_gradients"):
            raise UsageError(
                f"optimizer_fn returned a {type(optimizer).__module__}.{type(optimizer).__name__}; return one of tf.compat.v1.train, for "
                "example tf.compat.v1.train.MomentumOptimizer(0.01, 0.9)"
            )
        return optimizer

    # What can be done with a program from Python. `model_dir` is where the checkpoints are; in a run, the run's folder by default.

    def train(self, model_dir: PathLike | None = None, *, max_steps: int | None = None, hooks: Sequence[Any] = ()) -> int:
        """Trains until the data ends or the global step is `max_steps`, from the last checkpoint on; returns the global step."""
        from psclust.train import direct, modes

        return modes.train(direct.job_of(self, model_dir, hooks, max_steps=max_steps))

    def evaluate(self, model_dir: PathLike | None = None, *, steps: int | None = None, hooks: Sequence[Any] = ()) -> Evaluation:
        """Evaluates the last checkpoint on all held-out data, or `steps` batches of it."""
        from psclust.train import direct
        from psclust.train.offline import evaluation

        return evaluation.evaluate(direct.job_of(self, model_dir, hooks, eval_steps=steps))

    def predict(self, model_dir: PathLike | None = None, *, hooks: Sequence[Any] = ()) -> Iterator[Any]:
        """Yields the prediction for each example, a dict of numpy values where the model predicts a dict, with the last checkpoint."""
        from psclust.train import direct
        from psclust.train.offline import prediction

        return prediction.predict(direct.job_of(self, model_dir, hooks))

    def train_and_evaluate(
        self, model_dir: PathLike | None = None, *, max_steps: int | None = None, hooks: Sequence[Any] = ()
    ) -> Evaluation:
        """Trains, then evaluates the result; `hooks` are for the training."""
        self.train(model_dir, max_steps=max_steps, hooks=hooks)
        return self.evaluate(model_dir)

    def export_saved_model(
        self,
        export_dir: PathLike | None = None,
        serving_input_receiver_fn: Callable[..., Any] | None = None,
        *,
        model_dir: PathLike | None = None,
    ) -> Path:
        """Writes the last checkpoint as a SavedModel to `export_dir/<seconds since 1970>` and returns that folder. Default: `export` in
        the model's folder, and the program's serving_input_receiver_fn."""
        from psclust.train import direct
        from psclust.train.offline import saved_model

        folder = Path(export_dir) if export_dir is not None else None
        return saved_model.export_saved_model(direct.job_of(self, model_dir), folder, serving_input_receiver_fn)
