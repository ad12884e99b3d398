"""The session hooks of a task: those of the model function, of the caller, and that the program's
config asks for; none by default, so that a step costs nothing extra."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.replication.tf_types import Tensor
from psclust.replication.towers.tower import Tower
from psclust.train.hooks.early_stopping import EarlyStopping
from psclust.train.hooks.profile import Profile
from psclust.train.hooks.session_hooks import Hooks
from psclust.train.hooks.summaries import Summaries
from psclust.train.job import Job


def task_hooks(
    job: Job, towers: Sequence[Tower], step: Tensor, loss: Tensor, staleness: Tensor | None
) -> Hooks:
    """step, loss, staleness: tensors of the step that one run makes; staleness None without other
    replicas. towers: those whose summaries that run computes. Adds ops to the current graph."""
    spec, config = towers[0].spec, job.program.config
    hooks = [*(spec.training_hooks or ())]
    if job.context.is_chief:
        hooks += spec.training_chief_hooks or ()
    hooks += job.hooks
    if job.context.is_chief:
        if config.stop_after is not None:
            hooks.append(EarlyStopping(loss, config.stop_after))
        if config.profile_steps:
            hooks.append(Profile(step, config.profile_steps, job.model_dir))
        if config.summary_steps is not None:
            summaries = [tower.summaries for tower in towers]
            hooks.append(
                Summaries(step, loss, summaries, config.summary_steps, job.model_dir, staleness)
            )
    return Hooks(hooks)
