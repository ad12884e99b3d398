"""The training settings that shape the graph. `psclust.train.config.TrainConfig` implements and
documents them."""

from __future__ import annotations

from typing import Protocol

from psclust.errors import UsageError


class Settings(Protocol):
    @property
    def clip_norm(self) -> float | None: ...
    @property
    def accumulate(self) -> int: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def average_decay(self) -> float | None: ...
    @property
    def moving_statistics(self) -> str: ...
    @property
    def statistics_every(self) -> int: ...
    @property
    def nan_guard(self) -> str: ...
    @property
    def split_batch(self) -> bool: ...
    @property
    def drop_uneven(self) -> bool: ...
    @property
    def wire_dtype(self) -> str: ...
    @property
    def local_copies(self) -> bool: ...


def refuse_ignored(settings: Settings) -> None:
    """Raises UsageError for settings of the gradient step, which a model with its own train_op
    ignores."""
    found = {
        "clip_norm": settings.clip_norm is not None,
        "weight_decay": settings.weight_decay > 0,
        "accumulate": settings.accumulate > 1,
        "average_decay": settings.average_decay is not None,
        "wire_dtype int8": settings.wire_dtype == "int8",
    }
    names = [name for name, used in found.items() if used]
    if names:
        raise UsageError(
            f"TrainConfig has {', '.join(names)}, and model_fn returns a ready train_op, "
            "which ignores it: return no train_op and give the program an optimizer_fn, "
            "or leave the setting out"
        )
