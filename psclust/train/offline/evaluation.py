"""Evaluating checkpoints on the held-out data."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.input.batches import checked_dataset, count_examples, features_and_labels
from psclust.replication.model import ModeKeys, Shard
from psclust.replication.towers.tower import checked_loss
from psclust.rundir.atomic_file import write_atomically
from psclust.spec.plurals import counted
from psclust.train.hooks.session_hooks import Hooks
from psclust.train.job import Job
from psclust.train.offline.json_values import as_json
from psclust.train.offline.restorer import Restorer, restored

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The variables of global step `step`, over `examples` held-out examples. metrics: name ->
    value, or a list of values if the metric is not a scalar; the loss is one of them."""

    step: int
    examples: int
    metrics: Mapping[str, Any]

    def __str__(self) -> str:
        values = " ".join(f"{name} {value:.4g}" for name, value in self.scalars().items())
        return f"evaluation: {values} ({counted(self.examples, 'example')}) at step {self.step}"

    def as_json(self) -> str:
        return json.dumps(as_json(asdict(self)))

    def scalars(self) -> dict[str, float]:
        return {name: value for name, value in self.metrics.items() if isinstance(value, float)}


class EvaluationGraph:
    """The model in mode EVAL with the held-out data, in a graph of its own. Raises UsageError if a
    user's function breaks its contract."""

    def __init__(self, job: Job) -> None:
        self._steps = job.options.eval_steps
        self.graph = job.new_graph()
        with self.graph.as_default():
            self._global_step = tf.compat.v1.train.get_or_create_global_step()
            dataset = _finite(
                checked_dataset(job.program.dataset(ModeKeys.EVAL, Shard())), self._steps
            )
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            batch = iterator.get_next()
            spec = job.program.spec(*features_and_labels(batch), ModeKeys.EVAL)
            loss = checked_loss(spec)
            metrics = {
                name: _pair(name, metric) for name, metric in (spec.eval_metric_ops or {}).items()
            }
            with tf.control_dependencies(
                [update for _, update in metrics.values() if update is not None]
            ):
                self._update = (tf.identity(loss), count_examples(batch))
            self._values = {name: value for name, (value, _) in metrics.items()}
            self._input = iterator.initializer
            self._hooks = Hooks([*(spec.evaluation_hooks or ()), *job.hooks])
            self.restorer = Restorer(spec.scaffold, job.program.config)
        self.graph.finalize()

    def run(self, session: Any) -> Evaluation:
        """Evaluates the variables of the session. Raises UsageError without data."""
        session.run(self._input)
        self._hooks.stop_requested = False
        self._hooks.start(session)
        run = self._hooks.callable(session, self._update)
        total, seen, batches = 0.0, 0, 0
        while (self._steps is None or batches < self._steps) and not self._hooks.stop_requested:
            try:
                loss, examples = run()
            except tf.errors.OutOfRangeError:
                break
            total += float(loss) * int(examples)
            seen += int(examples)
            batches += 1
        if not seen:
            raise UsageError(
                "the held-out data is empty: input_fn with mode 'eval' (or eval_input_fn) "
                "returned a dataset without a batch"
            )
        metrics = {name: _plain(value) for name, value in session.run(dict(self._values)).items()}
        metrics.setdefault("loss", total / seen)
        self._hooks.end(session)
        return Evaluation(int(session.run(self._global_step)), seen, metrics)


def evaluate(job: Job) -> Evaluation:
    """Evaluates the last checkpoint on all held-out data. Raises UsageError without a checkpoint or
    data."""
    built = EvaluationGraph(job)
    with restored(built.graph, built.restorer, job.model_dir, "evaluate") as (session, _):
        result = built.run(session)
    LOG.info("%s", result)
    return result


def write_evaluation(result: Evaluation, directory: Path) -> None:
    """Writes `evaluation.json`."""
    write_atomically(directory / "evaluation.json", result.as_json() + "\n")


def _finite(dataset: Any, steps: int | None) -> Any:
    with tf.compat.v1.Session() as session:
        endless = session.run(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
    if endless and steps is None:
        raise UsageError(
            "the held-out data never ends: leave `repeat()` out in mode 'eval', "
            "or limit the batches with --eval-steps"
        )
    return dataset


def _pair(name: str, metric: Any) -> tuple[Any, Any]:
    """(value, update op) of one of eval_metric_ops: such a pair, or a metric of tf_keras that has
    been updated in this graph."""
    if isinstance(metric, (tuple, list)) and len(metric) == 2:
        return metric[0], metric[1]
    if hasattr(metric, "result") and getattr(metric, "updates", None):
        return metric.result(), tf.group(*metric.updates)
    raise UsageError(
        f"eval_metric_ops[{name!r}] is a {type(metric).__name__}; it must be (value, update op), "
        "as tf.compat.v1.metrics functions return"
    )


def _plain(value: Any) -> Any:
    return (
        float(value) + 0.0 if np.ndim(value) == 0 else np.asarray(value).tolist()
    )  # of -0.0 that is 0.0
