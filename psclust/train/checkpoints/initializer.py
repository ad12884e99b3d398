"""Bringing a graph's variables to life without ever wiping live ones.

The chief initialises or restores what is not initialised; everybody else waits until nothing is missing, looking five times a second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from enum import Enum
from typing import Any

import tensorflow as tf

from psclust.errors import PsclustError
from psclust.replication.variables.training_state import STOP
from psclust.train.checkpoints.checkpoint import Checkpoints
from psclust.train.checkpoints.scaffold import ScaffoldOps

LOG = logging.getLogger(__name__)

_POLL_S = 0.2


class Source(Enum):
    """Where the values of the variables come from when a session has been prepared."""

    ALIVE = "alive"
    CHECKPOINT = "checkpoint"
    INITIAL = "initial"


class Initializer:
    """The global variables of the current graph, and what starts afresh with every session of a process: local variables and tables."""

    def __init__(self, scaffold: Any = None) -> None:
        self.all: Sequence[Any] = tf.compat.v1.global_variables()
        self._setup = ScaffoldOps(scaffold)
        with tf.name_scope("initialized"):
            self._initialized = [_is_initialized(variable) for variable in self.all]
            self._local = tf.group(tf.compat.v1.local_variables_initializer(), tf.compat.v1.tables_initializer())

    def missing(self, session: Any) -> list[Any]:
        flags = session.run(self._initialized)
        return [variable for variable, flag in zip(self.all, flags, strict=True) if not flag]

    def prepare(self, session: Any, checkpoints: Checkpoints) -> Source:
        """What the chief does with a new session; returns what the values are now.

        Live variables stay. If any is missing, a ps has started empty: all are restored from the last checkpoint, those that are alive
        first, so that nobody sees a full set of variables before it is a consistent one. Without a checkpoint the missing ones alone
        get their initial values.
        """
        missing = self.missing(session)
        latest = checkpoints.latest() if missing else None
        if latest:
            lost = {variable.op.name for variable in missing}
            checkpoints.restore(session, latest, [variable.op.name for variable in self.all if variable.op.name not in lost])
            LOG.info("restored %s", latest)
            missing = self.missing(session)
        elif missing and len(missing) < len(self.all):
            LOG.warning("no checkpoint to restore; starting again with the initial value of %s", ", ".join(v.op.name for v in missing))
        # The others wait until nothing is missing: the last one gets its value when the scaffold has had its say.
        last = [variable for variable in missing if variable.op.name == STOP]
        session.run([variable.initializer for variable in missing if variable.op.name != STOP])
        if missing and not latest:
            self._setup.first(session)
        session.run([variable.initializer for variable in last])
        self.start_local(session)
        return Source.CHECKPOINT if latest else Source.INITIAL if missing else Source.ALIVE

    def start_local(self, session: Any) -> None:
        """Gives the variables and tables of this process alone their initial values."""
        session.run(self._local)
        self._setup.every(session)

    def await_chief(self, session: Any, deadline_s: float) -> None:
        """What everybody else does with a new session. Raises PsclustError where variables are missing after `deadline_s` seconds."""
        end = time.monotonic() + deadline_s
        while missing := self.missing(session):
            if time.monotonic() > end:
                names = ", ".join(variable.op.name for variable in missing)
                raise PsclustError(f"after {deadline_s:.0f} s the chief has not initialized {names}; see what it does with `psclust logs`")
            time.sleep(_POLL_S)
        self.start_local(session)


def _is_initialized(variable: Any) -> Any:
    with tf.device(variable.device):
        if hasattr(variable, "handle"):
            return tf.raw_ops.VarIsInitializedOp(resource=variable.handle)
        return tf.raw_ops.IsVariableInitialized(ref=variable.op.outputs[0])
