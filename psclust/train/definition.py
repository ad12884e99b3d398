"""The parts of a program: the user's functions, their parameters and the settings of the
training."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property, partial
from inspect import Parameter
from typing import Any, TypeVar

from psclust.errors import UsageError
from psclust.replication.input.upcoming import every_part
from psclust.replication.model import EstimatorSpec, ModeKeys, Shard, as_spec
from psclust.replication.parts.part_list import PartList, checked_parts
from psclust.replication.tf_types import Optimizer, Tensor
from psclust.train.compared_tensors import comparisons_noticed
from psclust.train.config import TrainConfig, changed
from psclust.train.keras_names import layers_named_anew
from psclust.train.user_errors.build_errors import refusals

_D = TypeVar("_D", bound="Definition")


@dataclass(frozen=True)
class Definition:
    """The fields of a `psclust.Program`, which documents them, and the user's functions called with
    their parameters."""

    model_fn: Callable[..., EstimatorSpec]
    input_fn: Callable[..., Any]
    optimizer_fn: Callable[..., Any] | None = None
    _: KW_ONLY
    params: Mapping[str, Any] | None = None
    eval_input_fn: Callable[..., Any] | None = None
    seed: int | None = None
    input_on_client: bool = False
    predict_input_fn: Callable[..., Any] | None = None
    serving_input_receiver_fn: Callable[..., Any] | None = None
    data_parts: Sequence[Any] | Callable[..., Sequence[Any]] | None = None
    config: TrainConfig = field(default=TrainConfig())
    # Places in these functions that have warned.
    _compared: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self) if each.name.endswith("_fn")):
            found = getattr(self, name)
            if found is not None and not callable(found):
                raise UsageError(
                    f"{name}={type(found).__name__}(...) is no function; "
                    "give one that returns it, such as a lambda"
                )

    def with_params(self: _D, changes: Mapping[str, Any]) -> _D:
        return replace(self, params={**(self.params or {}), **changes})

    def with_config(self: _D, changes: Sequence[str]) -> _D:
        """Raises UsageError, see `psclust.train.config.changed`."""
        return replace(self, config=changed(self.config, changes))

    @property
    def has_evaluation(self) -> bool:
        """Whether there is held-out data to evaluate on."""
        return self.eval_input_fn is not None or _takes(self.input_fn, "mode")

    @cached_property
    def parts(self) -> PartList | None:
        """Asked for once: what a folder has may change. Raises UsageError, see `checked_parts`, and
        where parts are to be handed out and the program has none."""
        config, found = self.config, self.data_parts
        if found is None:
            if config.handed_out:
                raise UsageError(
                    "`input: handed_out` needs a program with parts: "
                    "psclust.Program(..., data_parts=[names of files]) or "
                    "data_parts=psclust.ranges(examples, size), and an input_fn that takes `part`"
                )
            return None
        if callable(found):
            found = call_with(found, params=dict(self.params or {}))
        return PartList(
            checked_parts(found),
            config.epochs,
            shuffled=config.shuffle_parts,
            seed=self.seed or 0,
            once=config.at_most_once,
        )

    @contextmanager
    def part_input(self) -> Iterator[Callable[..., Any]]:
        if not _takes(self.input_fn, "part"):
            raise UsageError(
                "the program has data_parts, and its input_fn takes no `part`: "
                "write def input_fn(part, params) -> the batches of that part"
            )
        offered = {"mode": ModeKeys.TRAIN, "params": dict(self.params or {})}
        with refusals("input_fn", ModeKeys.TRAIN), comparisons_noticed(self._compared):
            yield partial(self.input_fn, **_named(self.input_fn, offered))

    def dataset(self, mode: str, shard: Shard) -> Any:
        """Raises UsageError if no function gives input for `mode`, or one breaks its contract."""
        parts = self.parts if mode == ModeKeys.TRAIN else None
        if parts is not None:
            return every_part(self, parts, shard.index, shard.count)
        offered = {"mode": mode, "params": dict(self.params or {}), "shard": shard}
        if self.data_parts is not None:
            offered["part"] = None
        own = {ModeKeys.EVAL: self.eval_input_fn, ModeKeys.PREDICT: self.predict_input_fn}.get(mode)
        if own is None and mode != ModeKeys.TRAIN and not _takes(self.input_fn, "mode"):
            what, function = (
                ("held-out data", "an eval_input_fn")
                if mode == ModeKeys.EVAL
                else ("input to predict for", "a predict_input_fn")
            )
            raise UsageError(
                f"there is no {what}: give the program {function}, or let input_fn take `mode`"
            )
        with refusals("input_fn", mode), comparisons_noticed(self._compared):
            return call_with(own or self.input_fn, **offered)

    def spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        with (
            refusals("model_fn", mode, features, labels),
            comparisons_noticed(self._compared),
            layers_named_anew(),
        ):
            return as_spec(
                call_with(
                    self.model_fn,
                    features,
                    labels,
                    mode=mode,
                    params=dict(self.params or {}),
                    config=None,
                )
            )

    def receiver(self, receiver_fn: Callable[..., Any]) -> Any:
        """Calls a `serving_input_receiver_fn`."""
        with comparisons_noticed(self._compared):
            return call_with(receiver_fn, params=dict(self.params or {}))

    def optimizer(self, global_step: Tensor) -> Optimizer | None:
        if self.optimizer_fn is None:
            return None
        with comparisons_noticed(self._compared):
            optimizer = call_with(
                self.optimizer_fn, params=dict(self.params or {}), global_step=global_step
            )
        if not hasattr(optimizer, "compute_gradients"):
            raise UsageError(
                f"optimizer_fn returned a {type(optimizer).__module__}.{type(optimizer).__name__}; "
                "return one of tf.compat.v1.train, "
                "for example tf.compat.v1.train.MomentumOptimizer(0.01, 0.9)"
            )
        return optimizer


def call_with(function: Callable[..., Any], *values: Any, **offered: Any) -> Any:
    """Calls `function` with the arguments of `offered` that it names (all, if it takes `**kwargs`);
    its other parameters, whatever their names, get `values` in order, as many as it has."""
    parameters = inspect.signature(function).parameters.values()
    offered = _named(function, offered)
    if any(
        parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY)
        for parameter in parameters
    ):
        return function(*values, **offered)
    free = [
        p.name
        for p in parameters
        if p.kind is Parameter.POSITIONAL_OR_KEYWORD and p.name not in offered
    ]
    return function(**dict(zip(free, values, strict=False)), **offered)


def _named(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `offered` that `function` takes."""
    return {name: value for name, value in offered.items() if _takes(function, name)}


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Whether `function` has a parameter of that name or takes `**kwargs`."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
