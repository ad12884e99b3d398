"""Prediction with the last checkpoint: one value or one dict of values an example, as a generator
or as a file of JSON lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.input.batches import checked_dataset, features_and_labels
from psclust.replication.model import ModeKeys, Shard
from psclust.rundir.atomic_file import replacing
from psclust.train.hooks.session_hooks import Hooks
from psclust.train.job import Job
from psclust.train.offline.json_values import as_json
from psclust.train.offline.restorer import Restorer, restored

LOG = logging.getLogger(__name__)


def predict(job: Job) -> Iterator[Any]:
    """Yields the prediction for each example of the input in mode PREDICT: a dict of numpy values
    if the model predicts a dict, else the value itself. Raises UsageError without input, checkpoint
    or predictions."""
    graph = job.new_graph()
    with graph.as_default():
        tf.compat.v1.train.get_or_create_global_step()
        iterator = tf.compat.v1.data.make_initializable_iterator(
            checked_dataset(job.program.dataset(ModeKeys.PREDICT, Shard()))
        )
        features, _ = features_and_labels(iterator.get_next())
        spec = job.program.spec(features, None, ModeKeys.PREDICT)
        predictions = checked_predictions(spec)
        hooks = Hooks([*(spec.prediction_hooks or ()), *job.hooks])
        restorer = Restorer(spec.scaffold, job.program.config)
    graph.finalize()
    with restored(graph, restorer, job.model_dir, "predict with") as (session, _):
        session.run(iterator.initializer)
        hooks.start(session)
        run = hooks.callable(session, list(predictions.values()))
        while not hooks.stop_requested:
            try:
                values = run()
            except tf.errors.OutOfRangeError:
                break
            yield from _examples(
                dict(zip(predictions, values, strict=True)),
                single=not isinstance(spec.predictions, dict),
            )
        hooks.end(session)


def write_predictions(job: Job) -> Path:
    """Writes `predictions.jsonl` into the model's folder, one line an example, in one step when it
    is complete."""
    path, count = job.model_dir / "predictions.jsonl", 0
    with replacing(path) as aside, open(aside, "w", encoding="utf-8") as file:
        for prediction in predict(job):
            file.write(json.dumps(as_json(prediction)) + "\n")
            count += 1
    LOG.info("wrote %d predictions to %s", count, path)
    return path


def checked_predictions(spec: Any) -> dict[str, Any]:
    """name -> tensor of a model function's predictions. Raises UsageError if there are none."""
    predictions = spec.predictions
    if predictions is None or (isinstance(predictions, dict) and not predictions):
        raise UsageError(
            f"model_fn returned no predictions in mode {spec.mode!r}; "
            "return EstimatorSpec(mode, predictions=...)"
        )
    return dict(predictions) if isinstance(predictions, dict) else {"predictions": predictions}


def _examples(batch: dict[str, Any], *, single: bool) -> Iterator[Any]:
    sizes = {name: len(value) if np.ndim(value) else None for name, value in batch.items()}
    if len(set(sizes.values())) > 1 or None in sizes.values():
        found = ", ".join(f"{name}: {np.shape(batch[name])}" for name in batch)
        raise UsageError(
            "every prediction must have one row for each example of the batch; "
            f"their shapes are {found}"
        )
    for index in range(next(iter(sizes.values())) or 0):
        row = {name: value[index] for name, value in batch.items()}
        yield next(iter(row.values())) if single else row
