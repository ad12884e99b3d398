"""Evaluating a checkpoint on the held-out data, in a plain local session: it needs no server and disturbs none."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.inputs import checked_dataset, count_examples, split_batch
from psclust.replication.model import ModeKeys, Shard
from psclust.replication.tower import checked_loss
from psclust.train.averages import averaged_weights
from psclust.train.checkpoint import Checkpoints
from psclust.train.job import Job
from psclust.train.session import open_session
from psclust.train.variables import Variables

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """metrics: name -> value, the loss among them, over `examples` held-out examples, of the variables at global step `step`."""

    step: int
    examples: int
    metrics: Mapping[str, float]

    def __str__(self) -> str:
        values = " ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"evaluation: {values} ({self.examples} examples) at step {self.step}"


@dataclass(frozen=True)
class _EvalGraph:
    """update: fetches (loss, examples) of one batch and counts it. values: name -> metric."""

    input: Any
    update: Any
    values: Mapping[str, Any]
    global_step: Any


def evaluate(job: Job) -> Evaluation:
    """Evaluates the last checkpoint on all held-out data. Raises UsageError where there is no checkpoint or no data."""
    graph = job.new_graph()
    with graph.as_default():
        built = _build(job)
        use_averages = averaged_weights() if job.program.config.average_decay is not None else None
        variables = Variables()
        checkpoints = Checkpoints(variables.all, job.model_dir, "")
    graph.finalize()
    latest = checkpoints.latest()
    if latest is None:
        raise UsageError(f"{job.model_dir}: there is no checkpoint to evaluate")
    with open_session("", graph, None) as session:
        checkpoints.restore(session, latest)
        if use_averages is not None:
            session.run(use_averages)
        session.run([variables.local, built.input])
        result = _run(session, built)
    LOG.info("%s", result)
    return result


def write_evaluation(result: Evaluation, directory: Path) -> None:
    """Writes `evaluation.json`."""
    aside = directory / "evaluation.json.new"
    aside.write_text(json.dumps(asdict(result), indent=2) + "\n", encoding="utf-8")
    aside.replace(directory / "evaluation.json")


def _build(job: Job) -> _EvalGraph:
    global_step = tf.compat.v1.train.get_or_create_global_step()
    iterator = tf.compat.v1.data.make_initializable_iterator(checked_dataset(job.program.dataset(ModeKeys.EVAL, Shard())))
    batch = iterator.get_next()
    spec = job.program.spec(*split_batch(batch), ModeKeys.EVAL)
    loss = checked_loss(spec)
    metrics = dict(spec.eval_metric_ops or {})
    updates = [update for _, update in metrics.values()]
    with tf.control_dependencies([op for op in updates if op is not None]):
        update = (tf.identity(loss), count_examples(batch))
    return _EvalGraph(iterator.initializer, update, {name: value for name, (value, _) in metrics.items()}, global_step)


def _run(session: Any, built: _EvalGraph) -> Evaluation:
    run = session.make_callable(list(built.update))
    total, seen = 0.0, 0
    while True:
        try:
            loss, examples = run()
        except tf.errors.OutOfRangeError:
            break
        total += float(loss) * int(examples)
        seen += int(examples)
    if not seen:
        raise UsageError("the held-out data is empty: input_fn with mode 'eval' (or eval_input_fn) returned a dataset without a batch")
    values = session.run(dict(built.values))
    metrics = {name: float(value) for name, value in values.items()}
    metrics.setdefault("loss", total / seen)
    return Evaluation(int(session.run(built.global_step)), seen, metrics)
