"""A graph in mode EVAL or PREDICT and its way to the values of a checkpoint: what evaluation, prediction and export have in common.

These graphs run in a plain local session of one process: they need no server and disturb none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.train.checkpoints.checkpoint import entry_of, refuse_another_model
from psclust.train.checkpoints.checkpoint_folder import CheckpointFolder
from psclust.train.checkpoints.moving_averages import averages, refuse_without_averages
from psclust.train.checkpoints.scaffold import ScaffoldOps
from psclust.train.config import TrainConfig
from psclust.train.session import open_session
from psclust.train.user_errors import explained


class Restorer:
    """Gives the global variables of the current graph their values in a checkpoint.

    With a scaffold that has a `saver`, that one restores what it knows: a model function may so evaluate averages of its variables. Without
    one, a `config` with average_decay means that trained variables are restored from their moving averages.
    """

    def __init__(self, scaffold: Any = None, config: TrainConfig | None = None) -> None:
        self._setup = ScaffoldOps(scaffold)
        variables = tf.compat.v1.global_variables()
        given = getattr(scaffold, "saver", None)
        self._averages = averages() if given is None and config is not None and config.average_decay is not None else None
        given = given or (tf.compat.v1.train.Saver(self._averages) if self._averages else None)
        known = _variables_of(given)
        rest = [variable for variable in variables if variable.op.name not in known]
        self._entries = [entry_of(variable) for variable in rest]
        self.local = tf.group(tf.compat.v1.local_variables_initializer(), tf.compat.v1.tables_initializer())
        self.saver = tf.compat.v1.train.Saver(variables, allow_empty=True)
        self._savers = [saver for saver in (given, tf.compat.v1.train.Saver(rest, allow_empty=True)) if saver is not None]

    def restore(self, session: Any, prefix: str) -> None:
        """Raises PsclustError for the checkpoint of another model, and TensorFlow's NotFoundError where it has just been removed."""
        found = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
        refuse_another_model(prefix, self._entries, found)
        refuse_without_averages(prefix, self._averages or {}, found)
        # Outside its graph a saver believes in eager execution, where that has not been switched off.
        with session.graph.as_default():
            for saver in self._savers:
                saver.restore(session, prefix)
        self.begin(session)

    def begin(self, session: Any) -> None:
        """Sets local variables (metrics) and tables to their beginning."""
        session.run(self.local)
        self._setup.every(session)


@contextmanager
def restored(graph: Any, restorer: Restorer, model_dir: Path, what_for: str) -> Iterator[tuple[Any, str]]:
    """A session of `graph` with the values of the last checkpoint, and that checkpoint's prefix. Raises UsageError where there is none."""
    prefix = CheckpointFolder(model_dir).latest()
    if prefix is None:
        raise UsageError(f"{model_dir}: there is no checkpoint to {what_for}; train first, or choose another --model-dir")
    with explained(graph), open_session("", graph, None) as session:
        restorer.restore(session, prefix)
        yield session, prefix


def _variables_of(saver: Any) -> set[str]:
    """The names of the variables that a `tf.compat.v1.train.Saver` restores, under whatever name it finds them."""
    if saver is None:
        return set()
    saver.build()
    held = saver._var_list
    flat = tf.nest.flatten(list(held.values()) if isinstance(held, dict) else list(held or ()))
    return {variable.op.name for variable in flat}
