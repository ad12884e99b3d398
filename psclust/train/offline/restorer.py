"""Restoring a checkpoint into a graph in mode EVAL or PREDICT, for evaluation, prediction and
export.

These graphs run in a local session of one process, without a server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.private_tensorflow import variables_of
from psclust.replication.tf_types import Graph, Session
from psclust.train.checkpoints.checkpoint import entry_of, refuse_another_model
from psclust.train.checkpoints.checkpoint_folder import CheckpointFolder, reading
from psclust.train.checkpoints.scaffold import ScaffoldOps
from psclust.train.config import TrainConfig
from psclust.train.session import open_session
from psclust.train.user_errors.step_errors import explained


class Restorer:
    """Gives the global variables of the current graph their values in a checkpoint.

    If the scaffold has a `saver`, it restores the variables it knows: a model function can evaluate
    averages of its variables in this way. Otherwise, a `config` with average_decay restores trained
    variables from their moving averages.
    """

    def __init__(self, scaffold: Any, config: TrainConfig) -> None:
        self._scaffold = ScaffoldOps(scaffold)
        variables = tf.compat.v1.global_variables()
        given = getattr(scaffold, "saver", None)
        averaged = given is None and config.average_decay is not None
        self._averages = _averages() if averaged else {}
        given = given or (tf.compat.v1.train.Saver(self._averages) if self._averages else None)
        known = _variables_of(given)
        rest = [variable for variable in variables if variable.op.name not in known]
        self._entries = [entry_of(variable) for variable in rest]
        self.local = tf.group(
            tf.compat.v1.local_variables_initializer(), tf.compat.v1.tables_initializer()
        )
        self.saver = tf.compat.v1.train.Saver(variables, allow_empty=True)
        self._savers = [tf.compat.v1.train.Saver(rest, allow_empty=True)]
        self._savers += [given] if given is not None else []

    def restore(self, session: Session, prefix: str) -> None:
        """Raises PsclustError for the checkpoint of another model, UsageError for one without the
        averages, and DamagedCheckpointError for one that is not whole, as it was removed meanwhile
        perhaps."""
        with reading(prefix):
            found = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
        refuse_another_model(prefix, self._entries, found)
        missing = [name for name in self._averages if name not in found]
        if missing:
            raise UsageError(
                f"{prefix} has no moving averages ({', '.join(missing)} missing), "
                "which average_decay asks for; train with average_decay, or leave it out here"
            )
        # Outside its graph, a saver assumes eager execution if that is not disabled.
        with session.graph.as_default(), reading(prefix):
            for saver in self._savers:
                saver.restore(session, prefix)
        # Metrics and tables.
        session.run(self.local)
        self._scaffold.start_local(session)


@contextmanager
def restored(
    graph: Graph, restorer: Restorer, model_dir: Path, what_for: str
) -> Iterator[tuple[Session, str]]:
    """A session of `graph` with the values of the last checkpoint, and that checkpoint's prefix.
    Raises UsageError without a checkpoint, and PsclustError for one that is damaged."""
    prefix = CheckpointFolder(model_dir).latest()
    if prefix is None:
        raise UsageError(
            f"{model_dir}: there is no checkpoint to {what_for}; "
            "train first, or choose another --model-dir"
        )
    with explained(graph), open_session("", graph, None) as session:
        restorer.restore(session, prefix)
        yield session, prefix


def _variables_of(saver: Any) -> set[str]:
    """The op names of the variables that a `tf.compat.v1.train.Saver` restores."""
    if saver is None:
        return set()
    saver.build()
    held = variables_of(saver)
    flat = tf.nest.flatten(list(held.values()) if isinstance(held, dict) else list(held or ()))
    return {variable.op.name for variable in flat}


def _averages() -> dict[str, Any]:
    """name of the average in a checkpoint -> the trainable variable of the current graph, or a list
    of its parts if it is partitioned; for `tf.compat.v1.train.Saver`."""
    found: dict[str, list[Any]] = {}
    for variable in tf.compat.v1.trainable_variables():
        found.setdefault(f"{entry_of(variable).name}/ExponentialMovingAverage", []).append(variable)
    return {name: parts if len(parts) > 1 else parts[0] for name, parts in found.items()}
