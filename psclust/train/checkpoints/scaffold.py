"""The init ops of a model function's `tf.compat.v1.train.Scaffold`.

Honored: `init_op` (with `init_feed_dict`) and `init_fn`, when a training begins, after every
variable has its initial value; `local_init_op`, in every session of every client; `saver`, to
restore in EVAL and PREDICT. Ignored: `saver` in TRAIN (checkpoints hold all variables), `ready_op`
and `ready_for_local_init_op` (psclust checks the variables themselves), `summary_op`.
"""

from __future__ import annotations

from typing import Any

from psclust.replication.tf_types import Session


class ScaffoldOps:
    """The scaffold's ops. Create it before the graph is finalized; `scaffold` None has none."""

    def __init__(self, scaffold: Any) -> None:
        self._scaffold = scaffold
        self._init_op = _given(scaffold, "init_op")
        self._feed = _given(scaffold, "init_feed_dict")
        self._local_init_op = _given(scaffold, "local_init_op")
        self._local_feed = _given(scaffold, "local_init_feed_dict")

    @property
    def initializes(self) -> bool:
        """Whether there are init ops."""
        return self._init_op is not None or _given(self._scaffold, "init_fn") is not None

    def initialize(self, session: Session) -> None:
        """Runs the init ops when a training begins and every variable has its initial value."""
        if self._init_op is not None:
            session.run(self._init_op, self._feed)
        # The scaffold wraps the user's function(scaffold, session) into a function of the session.
        init_fn = _given(self._scaffold, "init_fn")
        if init_fn is not None:
            with session.graph.as_default():
                init_fn(session)

    def start_local(self, session: Session) -> None:
        """Runs the local init ops when a session begins and all global variables have values."""
        if self._local_init_op is not None:
            session.run(self._local_init_op, self._local_feed)


def _given(scaffold: Any, name: str) -> Any:
    return getattr(scaffold, name, None)
