"""Sessions on a cluster: the in-process server, the devices a session sees, and reconnecting when a
peer has died."""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import tensorflow as tf

from psclust.errors import PsclustError, StartError
from psclust.replication.close_session import close
from psclust.replication.tf_types import Graph, Session
from psclust.replication.wire.own_wire import own_wire
from psclust.spec.cluster import Task
from psclust.spec.jobs import IN_GRAPH
from psclust.train.task_context import TaskContext, device
from psclust.train.user_errors.causes import first_line

LOG = logging.getLogger(__name__)

_Made = TypeVar("_Made")

# The errors of a session whose server has died (Unavailable, Aborted) or restarted empty
# (FailedPrecondition), and of the parts of the same step on other servers (Cancelled).
_LOST_PEER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.FailedPreconditionError,
    tf.errors.CancelledError,
)
# The errors of several servers arrive as one error of any class, each on a line of its own.
_LOST_PEER_LINE = re.compile(r"^(UNAVAILABLE|ABORTED): ", re.MULTILINE)
# The line `From /job:ps/replica:0/task:1:` above an error of that task, with its code perhaps, and
# what gRPC adds to its own.
_ELSEWHERE = re.compile(
    r"(?:^(?:[A-Z_]+: )?From|from remote target) /job:(\w+)/replica:0/task:(\d+)", re.MULTILINE
)

_MAX_FAILURES_WITHOUT_A_STEP = 5
_MAX_PAUSE_S = 5.0
_PEER_DEADLINE_S = 300.0
_POLL_S = 0.02


def session_config(context: TaskContext) -> Any:
    """A ConfigProto whose device filters name the tasks that the session uses, so that it waits for
    no others: in-graph all ps and workers, between-graph all ps and the process's own task. This
    process gets one device for each of its towers. Idle threads sleep at once, as in bare servers
    (`Request.encoded`)."""
    filters = [] if context.task is None else ["/job:ps", device(context.task)]
    if context.replication == IN_GRAPH and filters:
        filters.append("/job:worker")
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True, device_filters=filters)
    config.experimental.disable_thread_spinning = True
    if context.elastic and context.task is not None:
        _bring_cluster(config, context, context.task)
    for kind in ("CPU", "GPU"):
        own = sum(name.startswith(f"/device:{kind}:") for name in context.devices)
        if own:
            config.device_count[kind] = own
    return config


def _bring_cluster(config: Any, context: TaskContext, own: Task) -> None:
    """The servers know themselves alone; sessions of all clients have the same variables."""
    jobs: dict[str, dict[int, str]] = {}
    for task in (*context.peers, own):
        jobs.setdefault(task.job, {})[task.index] = context.address(task)
    config.cluster_def.CopyFrom(tf.train.ClusterSpec(jobs).as_cluster_def())
    config.experimental.share_session_state_in_clusterspec_propagation = True


# What the server of an elastic client is called until a session brings the cluster: TensorFlow
# refuses its own name there.
_ALONE = "alone"


def start_server(context: TaskContext) -> str:
    """Starts this task's TensorFlow server inside this process, unless another is its target, and
    returns the session target; an empty string without a cluster.

    With the master in the client's own process, no session call hangs because a remote master died.
    Raises StartError.
    """
    if context.task is None or context.cluster is None:
        return ""
    if context.target is not None:
        return context.target
    spec, job, index = context.cluster.as_dict(), context.task.job, context.task.index
    config = session_config(replace(context, elastic=False))
    if context.elastic:
        spec, job, index = {_ALONE: [context.address(context.task)]}, _ALONE, 0
        config.ClearField("device_filters")
    try:
        server = tf.distribute.Server(
            tf.train.ClusterSpec(spec), job_name=job, task_index=index, config=config
        )
    except tf.errors.UnknownError as error:
        raise StartError(
            f"{context.task}: no TensorFlow server could be started "
            f"on {context.address(context.task)} ({error.message}); "
            "another process may hold the port: stop it, or choose another port"
        ) from error
    return str(server.target)


class WiredSession(tf.compat.v1.Session):
    """A session whose runs also send what they receive by psclust's own wire."""

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        wire = own_wire(self.graph)
        sends = wire.sends_of(self.graph, _flat(fetches), feed_dict or ()) if wire else ()
        if not sends:
            return super().run(fetches, feed_dict, options, run_metadata)
        return super().run((fetches, list(sends)), feed_dict, options, run_metadata)[0]


def _flat(fetches: Any) -> Iterator[Any]:
    if isinstance(fetches, Mapping):
        fetches = list(fetches.values())
    elif isinstance(fetches, tf.compat.v1.SparseTensor | tf.IndexedSlices | tf.RaggedTensor):
        fetches = tf.nest.flatten(fetches, expand_composites=True)
    if not isinstance(fetches, list | tuple):
        yield fetches
        return
    for each in fetches:
        yield from _flat(each)


@contextmanager
def open_session(target: str, graph: Graph, config: Any) -> Iterator[Session]:
    """A session that is closed at the end, even if its servers are gone."""
    session = WiredSession(target, graph=graph, config=config)
    try:
        yield session
    finally:
        close(session)


def connect(session: Session) -> None:
    """Connects the tasks of a new session by psclust's own wire, if its graph has one."""
    wire = own_wire(session.graph)
    if wire is not None:
        session.run(wire.connect)


def recover(
    attempt: Callable[[], _Made],
    context: TaskContext,
    steps_done: Callable[[], int],
    *,
    is_to_leave: Callable[[], bool] = lambda: False,
    pause_s: float = 0.025,
    patience_s: float = 30.0,
) -> _Made | None:
    """The result of `attempt`, which is made again each time it loses a server. Waits first until
    all peers answer: a session would wait for ever for a missing one. None when it `is_to_leave`
    and has no session.

    Pauses between attempts, 2 * `pause_s` seconds at first and twice as long after each failure
    without a step in between, up to five seconds. The first are short: TensorFlow dials a server
    again within 0.2 s of its return (`GRPC_OPTIONS`). Raises the error after five such failures in
    at least `patience_s` seconds, and PsclustError if a peer does not answer for five minutes.
    """
    failures, since = 0, time.monotonic()
    while True:
        wait_for_peers(context, _PEER_DEADLINE_S, is_to_leave)
        if is_to_leave():
            return None
        before = steps_done()
        try:
            return attempt()
        except tf.errors.OpError as error:
            if context.task is None or not is_lost_peer(error):
                raise
            if steps_done() != before:
                failures, since = 0, time.monotonic()
            failures += 1
            if failures > _MAX_FAILURES_WITHOUT_A_STEP and time.monotonic() - since > patience_s:
                raise
            LOG.warning("lost a server (%s); reconnecting", brief(error))
        time.sleep(min(pause_s * 2**failures, _MAX_PAUSE_S))


def wait_for_peers(
    context: TaskContext, deadline_s: float, given_up: Callable[[], bool] = lambda: False
) -> None:
    """Returns when every peer accepts connections, or when it is `given_up`; raises PsclustError
    with the names of the others after `deadline_s` seconds."""
    end = time.monotonic() + deadline_s
    while silent := [task for task in context.peers if not answers(context.address(task))]:
        if time.monotonic() > end:
            names = ", ".join(f"{task} ({context.address(task)})" for task in silent)
            raise PsclustError(
                f"{context.task}: no answer for {deadline_s:.0f} s from {names}; "
                "see why it ended with `psclust logs`"
            )
        if given_up():
            return
        time.sleep(_POLL_S)


def answers(address: str) -> bool:
    """Whether a server accepts connections at `host:port`."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
            return True
    except OSError:
        return False


def is_lost_peer(error: Any) -> bool:
    """Whether a session failed because it lost one of its servers, so that a new session may
    succeed."""
    return isinstance(error, _LOST_PEER) or _LOST_PEER_LINE.search(str(error.message)) is not None


def brief(error: Any) -> str:
    """A TensorFlow error, whose message may be a page, in one line."""
    cause = first_line(str(error.message)) or "no message"
    return f"{type(error).__name__}{elsewhere(error)}: {cause}"


def system_reason(error: Exception) -> str | None:
    """The operating system's text for a failure to write, such as `No space left on device`, and
    the task where it happened if that is another one. TensorFlow puts it at the end of a line,
    after the name of a temporary file. None if there is no such text."""
    if isinstance(error, OSError):
        return error.strerror
    known = {os.strerror(number) for number in errno.errorcode}
    ends = [line.rpartition("; ")[2].strip() for line in str(error).splitlines()]
    reason = next((end for end in ends if end in known), None)
    return f"{reason}{elsewhere(error)}" if reason else None


def elsewhere(error: Exception) -> str:
    """` on worker:1` if TensorFlow names a task as the place of an error, else nothing."""
    found = _ELSEWHERE.search(str(error))
    return f" on {found[1]}:{found[2]}" if found else ""
