"""The training settings that shape the graph."""

from __future__ import annotations

from dataclasses import dataclass

from psclust.errors import UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """See `psclust.TrainConfig`, which documents and checks them."""

    clip_norm: float | None = None
    accumulate: int = 1
    weight_decay: float = 0.0
    average_decay: float | None = None
    wire_dtype: str = "float32"
    moving_statistics: str = "first"
    statistics_every: int = 1
    nan_guard: str = "loss"
    split_batch: bool = False
    drop_uneven: bool = False
    local_copies: bool = True
    handed_out: bool = False


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
