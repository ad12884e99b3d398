"""Session hooks, `tf.compat.v1.train.SessionRunHook`, called around a step as `MonitoredSession`
calls them. A step of which no hook wants anything costs no more than one without hooks.

Between-graph, every task runs its own hooks; an in-graph client runs those of its first tower
around that tower's steps, in that tower's thread when asynchronous. A hook that requests a stop
ends the training of all replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.prepared_run import prepare
from psclust.replication.tf_types import Session


class Hooks:
    """The hooks of one graph. Create it before the graph is finalized: a hook's `begin` may add
    ops."""

    def __init__(self, hooks: Sequence[Any] = ()) -> None:
        self._hooks = tuple(hooks)
        self._coordinator = tf.train.Coordinator()
        self.stop_requested = False
        for hook in self._hooks:
            if not callable(getattr(hook, "before_run", None)):
                raise UsageError(
                    f"{hook!r} is not a session hook; "
                    "derive it from tf.compat.v1.train.SessionRunHook"
                )
            hook.begin()

    def start(self, session: Session) -> None:
        """Calls `after_create_session`: a new session is ready, its variables have values."""
        with session.graph.as_default():
            for hook in self._hooks:
                hook.after_create_session(session, self._coordinator)

    def end(self, session: Session) -> None:
        """Calls `end`: the work in the session has succeeded."""
        with session.graph.as_default():
            for hook in self._hooks:
                hook.end(session)

    def callable(
        self, session: Session, fetches: Sequence[Any], feeds: Sequence[Any] = ()
    ) -> Callable[..., Any]:
        """A function of the values of `feeds` that runs `fetches` once, with the hooks around it.
        Returns the values of the tensors among them."""
        if not self._hooks:
            return prepare(session, fetches, feeds)
        prepared = cache(lambda: prepare(session, fetches, feeds))

        def run(*values: Any) -> Any:
            feed = dict(zip(feeds, values, strict=True))
            with session.graph.as_default():
                return self._run(session, list(fetches), feed, lambda: prepared()(*values))

        return run

    def _run(
        self,
        session: Session,
        fetches: Sequence[Any],
        feed: dict[Any, Any],
        alone: Callable[[], Any],
    ) -> Any:
        """alone: runs only `fetches`, for a step of which no hook wants anything."""
        context = tf.compat.v1.train.SessionRunContext(
            tf.compat.v1.train.SessionRunArgs(fetches, feed), session
        )
        asked = {hook: hook.before_run(context) for hook in self._hooks}
        wanted: dict[Any, Any] = {"step": fetches}
        options, metadata = _options(
            [request.options for request in asked.values() if request and request.options]
        )
        for hook, request in asked.items():
            if request is not None:
                wanted[hook] = request.fetches if request.fetches is not None else {}
                feed.update(request.feed_dict or {})
        if any(asked.values()):
            results = session.run(wanted, feed, options, metadata)
        else:
            results = {"step": alone()}
        for hook in self._hooks:
            hook.after_run(
                context, tf.compat.v1.train.SessionRunValues(results.get(hook), options, metadata)
            )
        self.stop_requested = self.stop_requested or context.stop_requested
        return results["step"]


def _options(requested: Sequence[Any]) -> tuple[Any, Any]:
    """RunOptions that satisfy all hooks, and the RunMetadata to fill; None twice if no hook asks
    for options."""
    if not requested:
        return None, None
    merged = tf.compat.v1.RunOptions()
    for options in requested:
        merged.trace_level = max(merged.trace_level, options.trace_level)
        merged.timeout_in_ms = max(merged.timeout_in_ms, options.timeout_in_ms)
        merged.output_partition_graphs = (
            merged.output_partition_graphs or options.output_partition_graphs
        )
    return merged, tf.compat.v1.RunMetadata()
