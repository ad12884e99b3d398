"""What a client does, by where its Python threads are. Pure."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from psclust.transport.process_facts import Frame


class Place(Enum):
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

    place: Place
    frame: Frame | None = None
    op: str | None = None


# (end of the file's path, functions, place); no function: all of the file's.
_PLACES: Sequence[tuple[str, tuple[str, ...], Place]] = (
    ("psclust/train/checkpoints/checkpoint.py", ("save",), Place.SAVING),
    ("psclust/train/checkpoints/checkpoint.py", ("restore",), Place.RESTORING),
    ("psclust/train/session.py", ("wait_for_peers",), Place.PEERS),
    ("psclust/replication/sync/step_watch.py", ("_while_computing",), Place.COMPUTING),
    ("psclust/replication/sync/participant.py", (), Place.BARRIER),
    ("psclust/train/between_graph/agreement.py", ("compare",), Place.CHIEF),
    ("psclust/train/checkpoints/initializer.py", ("await_chief",), Place.CHIEF),
    ("psclust/train/between_graph/chief.py", ("_await_others", "_wait"), Place.OTHERS),
    ("psclust/train/between_graph/replica.py", ("_await_saved",), Place.SAVED),
    ("psclust/train/offline/evaluation.py", ("run",), Place.EVALUATING),
    ("tensorflow/python/training/saver.py", ("save",), Place.SAVING),
    ("tensorflow/python/training/saver.py", ("restore",), Place.RESTORING),
    ("tensorflow/python/training/basic_session_run_hooks.py", ("_save",), Place.SAVING),
    ("tensorflow/python/training/session_manager.py", ("wait_for_session",), Place.CHIEF),
    ("tensorflow/python/training/server_lib.py", ("join",), Place.SERVING),
    ("psclust/runtime/own_servers.py", ("reported_join",), Place.SERVING),
    ("tensorflow/python/training/coordinator.py", ("join",), Place.THREADS),
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
# Places of which the user's line says more.
_WITH_LINE = (Place.SESSION, Place.CREATING, Place.THREADS, Place.CALL)
_QUEUE_RUNNER = "QueueRunnerThread-"
_STDLIB = sysconfig.get_paths()["stdlib"]


def whereabouts(
    threads: Sequence[Sequence[Frame]], names: Sequence[str] = ()
) -> Whereabouts | None:
    """Of a client whose main thread comes first; None if nothing is known. names: of the
    threads."""
    beside = {_known(frame) for thread in threads for frame in thread}
    if Place.SAVING in beside:
        return Whereabouts(Place.SAVING)
    main = _of_thread(threads[0]) if threads else None
    # The run of a step that computes its gradient looks like one that waits; a hook around it is
    # the user's own code.
    computes = main is not None and main.place is Place.BARRIER and Place.COMPUTING in beside
    if main is not None and main.place is Place.THREADS:
        return replace(main, op=_queue_runner_op(threads, names))
    return Whereabouts(Place.COMPUTING) if computes else main


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
        return Whereabouts(Place.LOADING)
    found: Whereabouts | None = None
    in_call = False
    for frame in thread:
        place = _known(frame)
        if place is not None and place not in _WITH_LINE:
            return Whereabouts(place)
        if place is not None:
            found = Whereabouts(place)
        if frame.file.endswith(_SESSION_FILE):
            found = found or Whereabouts(Place.SESSION)
            if frame.function.endswith(
                "_extend_graph"
            ):  # the first call to a master, which waits there for all of the cluster
                found = Whereabouts(Place.CREATING)
        elif _is_own(frame):
            return (
                replace(found, frame=frame)
                if found
                else Whereabouts(Place.CALL if in_call else Place.OWN, frame)
            )
        in_call = in_call or _CALLS.search(frame.file) is not None
    return found


def _known(frame: Frame) -> Place | None:
    function = frame.function.rpartition(".")[2]  # from Python 3.11 on it comes with its class
    return next(
        (
            place
            for end, names, place in _PLACES
            if frame.file.endswith(end) and (not names or function in names)
        ),
        None,
    )


def _is_own(frame: Frame) -> bool:
    """Neither a library's nor psclust's nor Python's."""
    return not (frame.file.startswith(("<", _STDLIB)) or _LIBRARY.search(frame.file))
