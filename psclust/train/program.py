"""`psclust.Program`: a model, its input and its optimizer, in the words of the Estimator interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from psclust.errors import UsageError
from psclust.replication.model import EstimatorSpec, ModeKeys, Shard, as_spec
from psclust.train.arguments import call_with, takes, takes_labels
from psclust.train.config import TrainConfig, changed

__all__ = ["EstimatorSpec", "ModeKeys", "Program", "Shard"]


@dataclass(frozen=True)
class Program:
    """One program, trained in-graph or between-graph, synchronously or asynchronously, or in one process, by a flag.

    model_fn(features, labels, mode, params) -> EstimatorSpec. `labels`, `mode` and `params` may be left out of its signature. It makes
        its variables with `tf.compat.v1.get_variable`, so that towers can share them.
    input_fn(mode, params, shard) -> tf.data.Dataset of (features, labels) batches, any subset of the arguments. A replica trains on
        shard `shard.index` of `shard.count`, until the dataset ends. With mode EVAL it returns the held-out data.
    optimizer_fn(params, global_step) -> tf.compat.v1.train.Optimizer, any subset of the arguments.
    params: passed to the functions; `--set key=value` on the command line replaces values.
    eval_input_fn(params) -> tf.data.Dataset of held-out batches, for an input_fn that does not take `mode`.
    seed: the graph-level random seed.
    input_on_client: in-graph, run the input in the client rather than on the workers, for an input_fn that calls Python.
    config: the settings of the training, see `TrainConfig`; `--config key=value` on the command line replaces some.
    """

    model_fn: Callable[..., EstimatorSpec]
    input_fn: Callable[..., Any]
    optimizer_fn: Callable[..., Any] | None = None
    params: Mapping[str, Any] | None = field(default=None, kw_only=True)
    eval_input_fn: Callable[..., Any] | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    input_on_client: bool = field(default=False, kw_only=True)
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

    def dataset(self, mode: str, shard: Shard) -> Any:
        offered = {"mode": mode, "params": dict(self.params or {}), "shard": shard}
        if mode == ModeKeys.EVAL and self.eval_input_fn is not None:
            return call_with(self.eval_input_fn, **offered)
        return call_with(self.input_fn, **offered)

    def spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        arguments = (features, labels) if takes_labels(self.model_fn) else (features,)
        return as_spec(call_with(self.model_fn, *arguments, mode=mode, params=dict(self.params or {}), config=None))

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
