"""The session hooks that a program's config asks for; none by default, so that a step costs nothing
extra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psclust.replication.tf_types import Tensor
from psclust.replication.towers.tower import Tower
from psclust.train.hooks.early_stopping import EarlyStopping
from psclust.train.hooks.profile import Profile
from psclust.train.hooks.summaries import Summaries
from psclust.train.job import Job


def configured_hooks(
    job: Job, step: Tensor, loss: Tensor, towers: Sequence[Tower], staleness: Tensor | None = None
) -> list[Any]:
    """The hooks of the chief. step, loss, staleness: tensors of the step that one run makes.
    towers: those whose summaries that run computes. Adds ops to the current graph."""
    config, hooks = job.program.config, []
    if config.stop_after is not None:
        hooks.append(EarlyStopping(loss, config.stop_after))
    if config.profile_steps:
        hooks.append(Profile(step, config.profile_steps, job.model_dir))
    if config.summary_steps is not None:
        hooks.append(
            Summaries(
                step,
                loss,
                [tower.summaries for tower in towers],
                config.summary_steps,
                job.model_dir,
                staleness,
            )
        )
    return hooks
