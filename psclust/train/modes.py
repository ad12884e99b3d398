"""The work of each task of a cluster for each value of `--do`."""

from __future__ import annotations

import logging
from dataclasses import replace

from psclust.spec.jobs import BETWEEN_GRAPH
from psclust.train.between_graph.chief import Chief
from psclust.train.between_graph.replica import Replica
from psclust.train.checkpoints.checkpoint_folder import CheckpointFolder
from psclust.train.checkpoints.folder_writer import writing_to
from psclust.train.checkpoints.patience import PATIENCE_S, patiently
from psclust.train.in_graph import train_in_graph
from psclust.train.job import Job
from psclust.train.offline.evaluation import evaluate, write_evaluation
from psclust.train.offline.evaluator import evaluate_continuously, mark_training
from psclust.train.offline.prediction import write_predictions
from psclust.train.offline.saved_model import export_saved_model
from psclust.train.program_options import TRAIN, TRAIN_AND_EVALUATE
from psclust.train.session import recover
from psclust.train.tower_devices import own_devices

LOG = logging.getLogger(__name__)


def run(job: Job) -> None:
    """Does what the options ask for. All clients train; only the chief evaluates, predicts and
    exports, in a local session that needs no server; an evaluator evaluates while the others
    train."""
    context, do = job.context, job.options.do
    trains = do in (TRAIN, TRAIN_AND_EVALUATE)
    if context.is_evaluator and trains:
        evaluate_continuously(job)
    elif trains:
        step = train(job)
        if job.end_request.leaving:
            LOG.info("%s leaves at step %d", context.task, step)
            return
        if job.end_request.received:
            if context.is_chief:
                LOG.info(
                    "ended at step %d before the training was over: SIGUSR1 asked for it", step
                )
            return
        if do == TRAIN_AND_EVALUATE and context.is_chief and job.program.has_evaluation:
            _evaluate(job)
            return
    elif not context.is_chief:
        LOG.info(
            "%s has nothing to do: --do %s is for %s only",
            context.task,
            do,
            context.chief or "the chief",
        )
    else:
        CheckpointFolder(job.model_dir).check_writable()
        if do == "evaluate":
            _evaluate(job)
            return
        job.reporter.phase(do)
        {"predict": write_predictions, "export": export_saved_model}[do](job)
    job.reporter.phase("done")


def train(job: Job) -> int:
    """Trains as this task, or alone; returns the greatest global step that this task knows of."""
    context = job.context
    if context.task is None or context.replication == BETWEEN_GRAPH:
        wanted = job.program.config.device_count or context.device_count
        job = replace(job, context=replace(context, devices=own_devices(wanted)))
    if not context.is_chief:
        return _train(job)
    folder = CheckpointFolder(job.model_dir)
    patiently(folder.check_writable, patience_s=PATIENCE_S if context.restarted else 0.0)
    with writing_to(job.model_dir, context.run, str(context.task or "a training")) as lease:
        folder.tidy()
        mark_training(job.model_dir, context.run, None)
        step = _train(replace(job, check_folder=lease.check))
        if not job.end_request.leaving:
            mark_training(job.model_dir, context.run, step)
    return step


def _train(job: Job) -> int:
    context = job.context
    if context.task is not None and context.replication == BETWEEN_GRAPH:
        replica = Chief(job) if context.is_chief else Replica(job)
        recover(replica.attempt, context, lambda: job.reporter.steps)
    else:
        train_in_graph(job)
    return job.reporter.global_step


def _evaluate(job: Job) -> None:
    job.reporter.phase("evaluate")
    result = evaluate(job)
    write_evaluation(result, job.model_dir)
    job.reporter.phase("done", result.step, result.scalars())
