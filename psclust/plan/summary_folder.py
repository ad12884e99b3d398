"""Where a run's summaries, the event files that TensorBoard reads, are written. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from psclust.plan.task_plan import TaskPlan
from psclust.rundir.folder import RunFolder
from psclust.spec.jobs import is_chief

_MODEL_DIR = "--model-dir"


def chief_of(tasks: Iterable[TaskPlan]) -> TaskPlan | None:
    """The task that writes the model: the chief, or the first worker. None if only servers run."""
    programs = [entry for entry in tasks if entry.role == "program"]
    return next(
        (entry for entry in programs if is_chief(entry.task.job)), programs[0] if programs else None
    )


def summary_folder(tensorboard: bool | str, chief: TaskPlan, run_dir: str) -> str:
    """tensorboard: the key of the cluster file, a script's folder or true: a psclust program's
    model. run_dir: the run's folder, on the chief's host."""
    given = tensorboard if isinstance(tensorboard, str) else _model_dir(chief.argv)
    return os.path.join(chief.cwd, given) if given else str(RunFolder(Path(run_dir)).model)


def _model_dir(argv: Sequence[str]) -> str | None:
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word == _MODEL_DIR:
            return following
        if word.startswith(f"{_MODEL_DIR}="):
            return word.partition("=")[2]
    return None
