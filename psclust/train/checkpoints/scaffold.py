"""What a model function's `tf.compat.v1.train.Scaffold` asks for, as far as it means something where the chief initializes what is missing
and writes the checkpoints itself.

Honored: `init_op` (with `init_feed_dict`) and `init_fn`, where a training begins, after every variable has its initial value;
`local_init_op`, in every session of every client; `saver`, to restore in EVAL and PREDICT. Left alone: `saver` in TRAIN (checkpoints hold
all variables), `ready_op` and `ready_for_local_init_op` (psclust asks the variables themselves), `summary_op`.
"""

from __future__ import annotations

from typing import Any


class ScaffoldOps:
    """The scaffold's ops. Made before the graph is finished; `scaffold` None asks for nothing."""

    def __init__(self, scaffold: Any) -> None:
        self._scaffold = scaffold
        self._init_op = _given(scaffold, "init_op")
        self._feed = _given(scaffold, "init_feed_dict")
        self._local_init_op = _given(scaffold, "local_init_op")
        self._local_feed = _given(scaffold, "local_init_feed_dict")

    def first(self, session: Any) -> None:
        """A training begins: every variable has its initial value."""
        if self._init_op is not None:
            session.run(self._init_op, self._feed)
        # The scaffold wraps the user's function(scaffold, session) into a function of the session.
        init_fn = _given(self._scaffold, "init_fn")
        if init_fn is not None:
            with session.graph.as_default():
                init_fn(session)

    def every(self, session: Any) -> None:
        """A session begins: all global variables have values."""
        if self._local_init_op is not None:
            session.run(self._local_init_op, self._local_feed)


def _given(scaffold: Any, name: str) -> Any:
    return getattr(scaffold, name, None)
