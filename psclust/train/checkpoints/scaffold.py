"""The init ops of a model function's `tf.compat.v1.train.Scaffold`.

Honored: `init_op` (with `init_feed_dict`) and `init_fn`, when a training begins, after every
variable has its initial value; `local_init_op`, in every session of every client; `saver`, to
restore in EVAL and PREDICT. Ignored: `saver` in TRAIN (checkpoints hold all variables), `ready_op`
and `ready_for_local_init_op` (psclust checks the variables themselves), `summary_op`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Session


class ScaffoldOps:
    """The ops of `scaffold`; None has none."""

    def __init__(self, scaffold: Any) -> None:
        self._given = scaffold or tf.compat.v1.train.Scaffold()

    @property
    def initializes(self) -> bool:
        """Whether there are init ops."""
        return self._given.init_op is not None or self._given.init_fn is not None

    def initialize(self, session: Session) -> None:
        """Runs the init ops when a training begins and every variable has its initial value."""
        if self._given.init_op is not None:
            session.run(self._given.init_op, self._given.init_feed_dict)
        # The scaffold wraps the user's function(scaffold, session) into a function of the session.
        if self._given.init_fn is not None:
            with session.graph.as_default():
                self._given.init_fn(session)

    def start_local(self, session: Session) -> None:
        """Runs the local init ops when a session begins and all global variables have values."""
        if self._given.local_init_op is not None:
            session.run(self._given.local_init_op, self._given.local_init_feed_dict)
