"""Exporting the last checkpoint as a SavedModel, which `tf.saved_model.load`, TensorFlow Serving
and TensorFlow 1 can read."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.estimator.export import PredictOutput, named
from psclust.replication.model import ModeKeys
from psclust.replication.tf_types import Session
from psclust.spec.whole_number import whole_number
from psclust.train.job import Job
from psclust.train.offline.prediction import checked_predictions
from psclust.train.offline.restorer import Restorer, restored
from psclust.train.session import system_reason

LOG = logging.getLogger(__name__)

_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def export_saved_model(
    job: Job, directory: Path | None = None, receiver_fn: Callable[..., Any] | None = None
) -> Path:
    """Writes `<directory>/<seconds since 1970>` (default: `export` in the model's folder) and
    returns it; it appears when it is complete.

    receiver_fn() -> ServingInputReceiver, by default the program's. Raises UsageError without one,
    without a checkpoint, or if the folder cannot be written.
    """
    receiver_fn = receiver_fn or job.program.serving_input_receiver_fn
    if receiver_fn is None:
        raise UsageError(
            "an exported model needs the form of its requests: "
            "give the program a serving_input_receiver_fn, "
            "for example psclust.estimator.export.build_raw_serving_input_receiver_fn({'x': "
            "tf.TensorSpec([None, 2])})"
        )
    graph = job.new_graph()
    with graph.as_default():
        tf.compat.v1.train.get_or_create_global_step()
        receiver = job.program.receiver(receiver_fn)
        spec = job.program.spec(receiver.features, None, ModeKeys.PREDICT)
        found = _signatures(spec, receiver)
        restorer = Restorer(spec.scaffold, job.program.config)
        with restored(graph, restorer, job.model_dir, "export") as (session, prefix):
            path = _write(session, found, restorer, directory or job.model_dir / "export")
    LOG.info("exported %s to %s", Path(prefix).name, path)
    return path


def _signatures(spec: Any, receiver: Any) -> dict[str, Any]:
    """name -> signature of every export output of a spec, or of the predictions if it has none. A
    single one is also the default. Raises UsageError if there are several and none is the
    default."""
    outputs = dict(spec.export_outputs or {_DEFAULT: PredictOutput(checked_predictions(spec))})
    if _DEFAULT not in outputs:
        if len(outputs) > 1:
            raise UsageError(
                f"export_outputs are {', '.join(outputs)}; "
                f"call the one to serve by default {_DEFAULT!r}"
            )
        outputs[_DEFAULT] = next(iter(outputs.values()))
    inputs = named(receiver.receiver_tensors, "input")
    found = {name: output.as_signature_def(inputs) for name, output in outputs.items()}
    for other, tensors in (getattr(receiver, "receiver_tensors_alternatives", None) or {}).items():
        found |= {
            f"{other}:{name}": output.as_signature_def(named(tensors, "input"))
            for name, output in outputs.items()
        }
    return found


def _write(session: Session, found: dict[str, Any], restorer: Restorer, directory: Path) -> Path:
    aside = directory / f".{os.getpid()}.new"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        builder = tf.compat.v1.saved_model.Builder(str(aside))
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            found,
            assets_collection=tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS),
            main_op=restorer.local,
            clear_devices=True,
            saver=restorer.saver,
        )
        builder.save()
        return numbered(aside, directory)
    except (OSError, tf.errors.OpError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        reason = system_reason(error)
        if reason is None:
            raise
        raise UsageError(
            f"{directory}: the model cannot be exported there ({reason}); choose another folder"
        ) from error


def numbered(aside: Path, directory: Path) -> Path:
    """Names the complete model by the time, or by the number after the highest one: servers load
    the highest."""
    others = (whole_number(entry.name) for entry in directory.iterdir())
    number = max([int(time.time()), *(other + 1 for other in others if other is not None)])
    while (directory / str(number)).exists():
        number += 1
    return aside.rename(directory / str(number))
