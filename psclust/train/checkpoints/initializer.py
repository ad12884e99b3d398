"""Initializing a graph's variables without overwriting live ones.

The chief initializes or restores the variables that have no value; the other replicas poll five
times a second until none is missing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Any

import tensorflow as tf

from psclust.errors import PsclustError
from psclust.replication.tf_types import Session, Tensor, Variable
from psclust.replication.variables.training_state import STOP
from psclust.train.checkpoints.checkpoint import Checkpoints
from psclust.train.checkpoints.scaffold import ScaffoldOps

LOG = logging.getLogger(__name__)

_POLL_S = 0.2


class Source(Enum):
    """The origin of the variables' values in a session."""

    ALIVE = "alive"
    CHECKPOINT = "checkpoint"
    INITIAL = "initial"
    MOVED = "moved"  # from where an earlier placement had them


class Initializer:
    """Initializes the global variables of the current graph, in any session of the cluster, and the
    local variables and tables, in every session that uses them."""

    def __init__(self, scaffold: Any = None) -> None:
        self.all: Sequence[Variable] = tf.compat.v1.global_variables()
        self._scaffold = ScaffoldOps(scaffold)
        with tf.name_scope("initialized"):
            self._initialized = [_is_initialized(variable) for variable in self.all]
            self._local = tf.compat.v1.local_variables_initializer()
            tables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
            self._tables = tf.group(*tables) if tables else None

    def missing(self, session: Session) -> list[Variable]:
        flags = session.run(self._initialized)
        return [variable for variable, flag in zip(self.all, flags, strict=True) if not flag]

    def prepare(
        self,
        session: Session,
        checkpoints: Checkpoints,
        half_made: Callable[[], bool] = lambda: False,
        undone: Callable[[Collection[str]], None] = lambda lost: None,
        fetch: Callable[[], bool] = lambda: False,
    ) -> Source:
        """Gives the variables values; returns their origin. For the chief. half_made: asked
        whether live variables have part of an update. undone: called with the names of the
        variables without a value before a checkpoint replaces those that have one. fetch: gives
        variables the values that they have where another placement had them; see
        `MovedVariables`.

        Live variables stay. If any is missing, a ps has started empty: all are restored from the
        last checkpoint, the live ones first, so that no replica sees a full set of variables before
        it is consistent. Without a checkpoint, only the missing variables get their initial values.
        So it is with an update that is half made; without a checkpoint, the training goes on with
        it.
        """
        missing = self.missing(session)
        if missing and fetch():
            session.run([variable.initializer for variable in self.missing(session)])
            return Source.MOVED
        half = not missing and half_made()
        latest = checkpoints.folder.latest() if missing or half else None
        if half:
            LOG.warning(
                "the chief died in the middle of an update%s",
                "" if latest else ", and there is no checkpoint to restore",
            )
        if latest:
            lost = {variable.op.name for variable in missing}
            undone(lost)
            checkpoints.restore(
                session,
                latest,
                [variable.op.name for variable in self.all if variable.op.name not in lost],
            )
            LOG.info("restored %s", latest)
            missing = self.missing(session)
        elif missing and len(missing) < len(self.all):
            LOG.warning(
                "no checkpoint to restore; starting again with the initial value of %s",
                ", ".join(v.op.name for v in missing),
            )
        # The other replicas wait until none is missing: this one gets its value after the
        # scaffold's init ops.
        scaffold = bool(missing and not latest and self._scaffold.initializes)
        last = {STOP} if scaffold else set()
        session.run([variable.initializer for variable in missing if variable.op.name not in last])
        if scaffold:
            self._scaffold.initialize(session)
            session.run([variable.initializer for variable in missing if variable.op.name in last])
        return Source.CHECKPOINT if latest else Source.INITIAL if missing else Source.ALIVE

    def start_local(self, session: Session, fetches: Sequence[Tensor] = ()) -> Sequence[Any]:
        """Initializes the variables and tables of this process only; returns the values of
        `fetches` before. The global variables must have values."""
        _, *values = session.run([self._local, *fetches])
        if self._tables is not None:
            session.run(self._tables)
        self._scaffold.start_local(session)
        return values

    def await_chief(self, session: Session, deadline_s: float) -> None:
        """Waits until the chief has given every variable a value. Raises PsclustError if some are
        missing after `deadline_s` seconds."""
        end = time.monotonic() + deadline_s
        while missing := self.missing(session):
            if time.monotonic() > end:
                names = ", ".join(variable.op.name for variable in missing)
                raise PsclustError(
                    f"after {deadline_s:.0f} s the chief has not initialized {names}; "
                    "see its output with `psclust logs`"
                )
            time.sleep(_POLL_S)


def _is_initialized(variable: Variable) -> Any:
    with tf.device(variable.device):
        if hasattr(variable, "handle"):
            return tf.raw_ops.VarIsInitializedOp(resource=variable.handle)
        return tf.raw_ops.IsVariableInitialized(ref=variable.op.outputs[0])
