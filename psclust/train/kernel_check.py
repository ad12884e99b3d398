"""Which tasks have psclust's own kernels: asked once, before the graph is built."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import tensorflow as tf

from psclust.replication.wire import kernels
from psclust.spec.jobs import IN_GRAPH
from psclust.train.job import Job
from psclust.train.session import open_session, recover, session_config
from psclust.train.task_context import TaskContext, device

LOG = logging.getLogger(__name__)

_WITHOUT = (
    "int8 takes about three times the CPU: psclust's kernels are missing on %s. Install gcc, and then psclust again, there or where it was "
    "sent from"
)


def with_kernels(job: Job, target: str) -> Job:
    """The job with `context.kernels` set if the training needs the kernels and all tasks that its graph runs on have them; asks their
    servers through the session target. Raises what `recover` raises."""
    context = job.context
    if context.task is None or job.program.config.wire_dtype != "int8":
        return job
    lacking = [str(context.task)]

    def ask() -> None:
        lacking[:] = _lacking(context, target)

    if kernels.loaded() is not None:
        recover(ask, context, lambda: 0)
    if lacking:
        LOG.info(_WITHOUT, ", ".join(lacking))
    return replace(job, context=replace(context, kernels=not lacking))


def without_kernels(job: Job) -> Job:
    return replace(job, context=replace(job.context, kernels=False))


def _lacking(context: TaskContext, target: str) -> list[str]:
    """The tasks of this session that cannot run them."""
    assert context.cluster is not None
    jobs = ("ps", "worker") if context.replication == IN_GRAPH else ("ps",)
    tasks = [task for task in context.cluster.tasks() if task.job in jobs]
    with tf.Graph().as_default() as graph:
        trials = {str(task): kernels.trial(device(task)) for task in tasks}
    found = []
    with open_session(target, graph, session_config(context)) as session:
        for name, (operation, message) in trials.items():
            try:
                session.run(operation, {message: np.zeros(8, np.int8)})
            except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError):
                found.append(name)
    return found
