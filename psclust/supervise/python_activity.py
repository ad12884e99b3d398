"""The activity of a client, read from the stacks of its Python threads. Pure."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from psclust.transport.process_facts import Frame


class Activity(Enum):
    """The values are shown."""

    LOADING = "loading TensorFlow"
    SAVING = "writing a checkpoint"
    RESTORING = "restoring a checkpoint"
    PEERS = "waiting for servers to answer"
    BARRIER = "in the barrier"
    COMPUTING = "computing its gradient"
    CHIEF = "waiting for the chief to prepare the variables"
    OTHERS = "waiting for the other replicas to end"
    SAVED = "waiting for the chief to save its last steps"
    EVALUATING = "evaluating"
    SERVING = "serving"
    CREATING = "in CreateSession"
    SESSION = "in a session call"
    THREADS = "in Coordinator.join"
    CALL = "in a TensorFlow call"
    INPUT = "reading input"
    OWN = "in its own code"


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """frame: the innermost one of the user's own code, for OWN, INPUT and calls of TensorFlow's.
    op: what a queue runner runs that THREADS waits for."""

    activity: Activity
    frame: Frame | None = None
    op: str | None = None


# (end of the file's path, functions, activity); no function: all of the file's.
_ACTIVITIES: Sequence[tuple[str, tuple[str, ...], Activity]] = (
    ("psclust/train/checkpoints/checkpoint.py", ("save",), Activity.SAVING),
    ("psclust/train/checkpoints/checkpoint.py", ("restore",), Activity.RESTORING),
    ("psclust/train/session.py", ("wait_for_peers",), Activity.PEERS),
    ("psclust/replication/sync/step_watch.py", ("_while_computing",), Activity.COMPUTING),
    ("psclust/replication/sync/participant.py", (), Activity.BARRIER),
    ("psclust/train/between_graph/agreement.py", ("compare",), Activity.CHIEF),
    ("psclust/train/checkpoints/initializer.py", ("await_chief",), Activity.CHIEF),
    ("psclust/train/between_graph/chief.py", ("_await_others", "_wait"), Activity.OTHERS),
    ("psclust/train/between_graph/replica.py", ("_await_saved",), Activity.SAVED),
    ("psclust/train/offline/evaluation.py", ("run",), Activity.EVALUATING),
    ("tensorflow/python/training/saver.py", ("save",), Activity.SAVING),
    ("tensorflow/python/training/saver.py", ("restore",), Activity.RESTORING),
    ("tensorflow/python/training/basic_session_run_hooks.py", ("_save",), Activity.SAVING),
    ("tensorflow/python/training/session_manager.py", ("wait_for_session",), Activity.CHIEF),
    ("tensorflow/python/training/server_lib.py", ("join",), Activity.SERVING),
    ("psclust/runtime/own_servers.py", ("reported_join",), Activity.SERVING),
    ("tensorflow/python/training/coordinator.py", ("join",), Activity.THREADS),
)
_SESSION_FILE = "tensorflow/python/client/session.py"
_INPUT_FILES = (
    "tensorflow/python/ops/script_ops.py",
    "tensorflow/python/data/ops/from_generator_op.py",
)
_LIBRARY = re.compile(
    r"(?:site|dist)-packages/|/lib/python3[^/]*/"
    r"|/psclust/(?:train|replication|estimator|runtime|rundir|spec|placement)/"
    r"|/psclust/(?:errors|framing)\.py$"
)
_CALLS = re.compile(r"/(?:tensorflow|keras|tf_keras)/")
# Activities for which the user's own line is more precise.
_WITH_LINE = (Activity.SESSION, Activity.CREATING, Activity.THREADS, Activity.CALL)
_QUEUE_RUNNER = "QueueRunnerThread-"
_STDLIB = sysconfig.get_paths()["stdlib"]


def whereabouts(
    threads: Sequence[Sequence[Frame]], names: Sequence[str] = ()
) -> Whereabouts | None:
    """Of a client whose main thread comes first; None if nothing is known. names: of the
    threads."""
    beside = {_known(frame) for thread in threads for frame in thread}
    if Activity.SAVING in beside:
        return Whereabouts(Activity.SAVING)
    main = _of_thread(threads[0]) if threads else None
    # The run of a step that computes its gradient looks like one that waits; a hook around it is
    # the user's own code.
    computes = (
        main is not None and main.activity is Activity.BARRIER and Activity.COMPUTING in beside
    )
    if main is not None and main.activity is Activity.THREADS:
        return replace(main, op=_queue_runner_op(threads, names))
    return Whereabouts(Activity.COMPUTING) if computes else main


def _queue_runner_op(threads: Sequence[Sequence[Frame]], names: Sequence[str]) -> str | None:
    """The op that a queue runner waits in. TensorFlow names such a thread by its queue and its
    op."""
    for thread, name in zip(threads, names, strict=False):
        if name.startswith(_QUEUE_RUNNER) and any(
            frame.file.endswith(_SESSION_FILE) for frame in thread
        ):
            return name.rpartition("-")[2]
    return None


def input_thread(threads: Sequence[Sequence[Frame]]) -> Sequence[Frame]:
    """The thread of the input pipeline that is in the user's code, from the user's innermost frame
    outwards; empty if none is."""
    for thread in threads:
        if any(frame.file.endswith(_INPUT_FILES) for frame in thread):
            own = next((number for number, frame in enumerate(thread) if _is_own(frame)), None)
            if own is not None:
                return thread[own:]
    return ()


def _of_thread(thread: Sequence[Frame]) -> Whereabouts | None:
    if any("importlib._bootstrap" in frame.file for frame in thread) and any(
        "/tensorflow/" in frame.file for frame in thread
    ):
        return Whereabouts(Activity.LOADING)
    found: Whereabouts | None = None
    in_call = False
    for frame in thread:
        activity = _known(frame)
        if activity is not None and activity not in _WITH_LINE:
            return Whereabouts(activity)
        if activity is not None:
            found = Whereabouts(activity)
        if frame.file.endswith(_SESSION_FILE):
            found = found or Whereabouts(Activity.SESSION)
            if frame.function.endswith(
                "_extend_graph"
            ):  # the first call to a master, which waits there for all of the cluster
                found = Whereabouts(Activity.CREATING)
        elif _is_own(frame):
            return (
                replace(found, frame=frame)
                if found
                else Whereabouts(Activity.CALL if in_call else Activity.OWN, frame)
            )
        in_call = in_call or _CALLS.search(frame.file) is not None
    return found


def _known(frame: Frame) -> Activity | None:
    function = frame.function.rpartition(".")[2]  # from Python 3.11 on it comes with its class
    return next(
        (
            activity
            for end, names, activity in _ACTIVITIES
            if frame.file.endswith(end) and (not names or function in names)
        ),
        None,
    )


def _is_own(frame: Frame) -> bool:
    """Neither a library's nor psclust's nor Python's."""
    return not (frame.file.startswith(("<", _STDLIB)) or _LIBRARY.search(frame.file))
