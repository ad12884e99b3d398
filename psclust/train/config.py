"""`psclust.TrainConfig`: the settings of a training beyond model, input and optimizer. The defaults
change nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from psclust.errors import UsageError
from psclust.replication.settings import Settings
from psclust.train.key_values import key_values

STATISTICS = ("first", "mean", "sync")
WIRES = ("float32", "bfloat16", "int8")
GUARDS = ("off", "loss", "gradients")
_CHOICES = {"wire_dtype": WIRES, "moving_statistics": STATISTICS, "nan_guard": GUARDS}
_WHOLE = ("accumulate", "statistics_every", "keep")
_POSITIVE = (
    "save_seconds",
    "save_steps",
    "keep",
    "keep_every_s",
    "clip_norm",
    "accumulate",
    "statistics_every",
    "summary_steps",
    "stop_after",
    "device_count",
    "epochs",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig(Settings):
    """Settings of a training; `--config key=value` on the command line replaces any of them. Raises
    UsageError for an invalid value.

    clip_norm: scales the averaged gradient of an update down to this global norm if it is longer.
    accumulate: batches that each replica adds up for one update, which equals one batch as large as
        all of them.
    weight_decay: each update adds this times the variable to its gradient, for variables of two
        dimensions or more, once whatever the number of replicas; to a sparse gradient, for the rows
        that the step touches. Before clipping.
    average_decay: keeps an exponential moving average of all trained variables, also in the
        checkpoints, and evaluates it.
    wire_dtype: float32; bfloat16, which halves the traffic between tasks; or int8, which quarters
        that of large dense variables (the rest is bfloat16 then). Variables and checkpoints keep
        their dtype. int8 sends gradients with a scale for each block of up to 1,024 values and
        keeps what rounding takes from them for the next step; weights come back as rounded
        differences where workers compute from copies of their own (local_copies), elsewhere as
        bfloat16.
    moving_statistics: how `psclust.batch_normalization` works with several replicas. first: each
        normalizes its own batch, and the first one's moments are kept. mean: the mean of all
        replicas' moments is kept. sync: moments of the whole batch of all replicas.
    statistics_every: with mean in-graph, each tower keeps its own statistics; they are averaged
        once in this many updates.
    nan_guard: loss ends the training at a loss that is not finite; gradients also checks every
        gradient before it is applied. Both keep values that are not finite out of checkpoints. off
        does neither.
    summary_steps: steps between summaries in event files; None writes none.
    profile_steps: the steps to write a Chrome trace of, `trace-<step>.json`.
    stop_after: ends the training when the mean loss of this many steps is no lower than the lowest
        mean of as many steps before.
    save_seconds, save_steps: time and steps between checkpoints, whichever comes first; None for
        both writes only the last one.
    keep: how many of the last checkpoints to keep. keep_every_s: also keeps, for good, one for
        every this many seconds.
    sharded: every ps writes and reads its own part of a checkpoint; they need a file system that
        all of them share.
    split_batch: towers that step together share one dataset and split each batch by rows: in one
        process and in-graph all towers, as shard 0 of 1; between-graph the towers of one worker.
        Otherwise every tower reads a shard of its own.
    drop_uneven: drops batches that cannot be shared evenly instead of weighting them: a batch
        smaller than its dataset's first one, or a split batch whose rows the towers cannot split
        evenly. Synchronous training ends when the first replica has no batch left.
    local_copies: workers compute from copies of the variables they train, and each variable comes
        back as soon as it is updated, while gradients still leave. Without effect where an update
        needs all gradients at once (clip_norm, nan_guard "gradients"), with --max-staleness, and
        between-graph with --sync. A hook that writes to a trained variable is seen one step later.
    epochs: of a program with data_parts, how often it trains on each part; None: for ever.
    shuffle_parts: in another order in every epoch, by the program's seed.
    handed_out: workers claim the parts one after another, in place of each having its own; the
        cluster file's `input: handed_out` sets it.
    at_most_once: a part that a worker had begun when it died is left as it is, so that no example
        is used twice in an epoch even if input_fn does not give a part's batches in the same order
        again. By default it goes on after the last batch that was used.
    device_count: how many devices, with a tower on each, a process uses: of its GPUs or, if it has
        none, of CPU devices. None: all GPUs, else one CPU. Bare servers get their devices from the
        cluster file; this limits how many are used.
    """

    epochs: int | None = 1
    shuffle_parts: bool = False
    at_most_once: bool = False
    summary_steps: int | None = None
    profile_steps: tuple[int, ...] = ()
    stop_after: int | None = None
    save_seconds: float | None = 60.0
    save_steps: int | None = None
    keep: int = 5
    keep_every_s: float | None = None
    sharded: bool = False
    device_count: int | None = None

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            self._need(name, lambda value: value is None or value > 0, "a positive number")
        for name in _WHOLE:
            self._need(name, lambda value: isinstance(value, int), "a whole number")
        for name in ("device_count", "epochs"):
            if getattr(self, name) is not None:
                self._need(name, lambda value: isinstance(value, int), "a whole number")
        self._need(
            "weight_decay", lambda value: value >= 0 and math.isfinite(value), "zero or more"
        )
        self._need(
            "average_decay",
            lambda decay: decay is None or 0 <= decay < 1,
            "at least 0 and less than 1, for example 0.999",
        )
        for name, choices in _CHOICES.items():
            self._need(name, choices.__contains__, f"one of {', '.join(choices)}")

    def _need(self, name: str, holds: Callable[[Any], bool], what: str) -> None:
        value = getattr(self, name)
        if not holds(value):
            raise UsageError(f"TrainConfig: {name} is {value!r}; it must be {what}")


def changed(config: TrainConfig, changes: Sequence[str]) -> TrainConfig:
    """`config` with the `key=value` texts applied. Raises UsageError."""
    types = {field.name: str(field.type) for field in fields(TrainConfig)}
    values = key_values("--config", changes, types)
    try:
        return replace(config, **values)
    except UsageError as error:
        raise UsageError(f"--config: {error}") from error
