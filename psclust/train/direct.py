"""The methods of `psclust.Program`: the modes called from Python, alone or, in a script that `psclust up` runs, as the task it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from psclust.errors import UsageError
from psclust.estimator import install
from psclust.train.job import Job
from psclust.train.program import Program
from psclust.train.program_options import Options
from psclust.train.progress import ProgressFile
from psclust.train.report import Reporter
from psclust.train.task_context import IN_GRAPH, TaskContext, read_context

_LOG_S = 2.0


def job_of(program: Program, model_dir: str | os.PathLike[str] | None, hooks: Sequence[Any] = (), **options: Any) -> Job:
    """The job that a method call is. Raises UsageError where there is no place for checkpoints, and in a task that only serves."""
    context = _context(os.environ)
    if model_dir is None and context.run_dir is None:
        raise UsageError("where are the checkpoints? Give model_dir, a folder")
    folder = Path(model_dir).absolute() if model_dir is not None else (context.run_dir or Path()) / "model"
    install()
    reporter = Reporter(ProgressFile(context.progress_file), _LOG_S)
    return Job(program, context, Options("", **options), folder, reporter, tuple(hooks))


def _context(environment: Mapping[str, str]) -> TaskContext:
    context = read_context(environment)
    task = context.task
    if task is not None and (task.job == "ps" or (context.replication == IN_GRAPH and task.job == "worker")):
        raise UsageError(
            f"{task} is a server and does not train. Start the program as module:program with `psclust up`, or start a script with "
            "`run: server` for that job"
        )
    return context
